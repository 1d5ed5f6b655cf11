// SPDX-License-Identifier: MIT
// Weights are rounded up or down, not to the nearest, so that what a layer gives changes least on
// inputs that it has seen.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "oort/graph.h"
#include "quantize/ranges.h"

namespace oort::quantize {

/// What a layer multiplies its weights with: some windows of each input. Thread contract: none.
class SeenInputs {
 public:
  /// Of an nn.Conv2d or nn.Linear, from `samples` inputs.
  SeenInputs(const Operator& layer, size_t samples);

  /// Takes windows at equal distances.
  void Add(const Tensor& input);

  int64_t windows() const { return windows_; }
  /// Numbers of one window that one output reads.
  int64_t terms() const { return terms_; }
  int64_t groups() const { return groups_; }
  /// (windows, groups, terms)
  const std::vector<float>& values() const { return values_; }

 private:
  struct Axis {
    int64_t kernel = 1, stride = 1, pad = 0, dilation = 1;
    int64_t Out(int64_t extent) const;
  };
  void AddWindow(const float* image, int64_t height, int64_t width, int64_t y, int64_t x);

  bool convolution_;
  int64_t channels_ = 0, groups_ = 1, terms_ = 0, windows_ = 0;
  int64_t most_windows_ = 0;  // of one input
  Axis rows_, columns_;
  std::vector<float> values_;
};

/// Layers with more terms keep their weights: the products of all pairs would not fit.
inline constexpr int64_t kMostRoundedTerms = 4608;

/// Moves weights of `rounded` to their other neighbour, one after another, while that lowers the
/// squared error of the outputs. Gives which have moved.
std::vector<bool> RoundToOutputs(const Tensor& weight, const SeenInputs& inputs,
                                 QuantizedWeights& rounded);

/// The same from what an earlier call gave. Throws kInvalidArgument where it has not one entry for
/// each weight.
void MoveToOther(const Tensor& weight, const std::vector<bool>& moved, QuantizedWeights& rounded);

/// Four entries a digit, for a recipe.
std::string HexOf(const std::vector<bool>& moved);
/// Nothing for what is no such text.
std::optional<std::vector<bool>> MovedOf(std::string_view hex, size_t count);

}  // namespace oort::quantize
