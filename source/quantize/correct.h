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
  /// Of an nn.Conv2d or nn.Linear, for so many ways to round what it reads. Throws
  /// kInvalidArgument for parameters that are no numbers.
  explicit InputSums(const Operator& layer, size_t ways = 1);

  /// One input, as its values are and as they are after bytes of each grid: one for each way. The
  /// sums are the same for any number of threads.
  void Add(const Tensor& input, std::span<const Grid> grids, int threads = 1);

  /// The mean over all windows of what the float layer gives less what the rounded one gives, for
  /// each output channel.
  std::vector<float> Correction(const Tensor& weight, const QuantizedWeights& rounded,
                                size_t way = 0) const;

 private:
  struct Axis {
    int64_t stride = 1, pad = 0, dilation = 1, kernel = 1;
    bool same = false;
    int64_t Begin() const;
    int64_t Out(int64_t extent) const;
  };
  struct Scratch;
  /// Both add channels begin to end.
  void AddPlanes(std::span<const float> values, std::span<const Grid> grids, int64_t begin,
                 int64_t end);
  void AddPixels(std::span<const float> values, std::span<const Grid> grids, int64_t begin,
                 int64_t end);
  void AddPlane(std::span<const float> plane, double* sums, Scratch& scratch) const;

  bool convolution_;
  int64_t channels_ = 0, groups_ = 1;
  int64_t height_ = 1, width_ = 1;  // of the input that is being added
  Axis rows_, columns_;
  int64_t windows_ = 0;
  std::vector<double> exact_;                 // by input channel, then tap
  std::vector<std::vector<double>> rounded_;  // the same of each way
};

}  // namespace oort::quantize
