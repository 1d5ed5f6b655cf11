// SPDX-License-Identifier: MIT
// Rounding moves the mean of what a layer gives; its bias moves it back.
#pragma once

#include <span>
#include <vector>

#include "oort/graph.h"
#include "quantize/ranges.h"

namespace oort::quantize {

/// Sums of what each weight of a layer is multiplied with, over all windows and samples.
/// Thread contract: none.
class InputSums {
 public:
  /// Of an nn.Conv2d or nn.Linear. Throws kInvalidArgument for parameters that are no numbers.
  explicit InputSums(const Operator& layer);

  /// One input, as its values are and as they are after bytes.
  void Add(const Tensor& input, const Grid& grid);

  /// The mean over all windows of what the float layer gives less what the rounded one gives, for
  /// each output channel.
  std::vector<float> Correction(const Tensor& weight, const QuantizedWeights& rounded) const;

 private:
  struct Axis {
    int64_t stride = 1, pad = 0, dilation = 1, kernel = 1;
    bool same = false;
    int64_t Begin() const;
    int64_t Out(int64_t extent) const;
  };
  void AddImage(std::span<const float> image, int64_t height, int64_t width,
                std::vector<double>& sums) const;

  bool convolution_;
  int64_t channels_ = 0, groups_ = 1;
  Axis rows_, columns_;
  int64_t windows_ = 0;
  std::vector<double> exact_, rounded_;  // by input channel, then tap
};

}  // namespace oort::quantize
