// SPDX-License-Identifier: MIT
// What calibration remembers of an operand: a histogram that grows with its values, and their ends.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "quantize/calibration.h"

namespace oort::quantize {

/// How often values of each size occur: bins of equal width over [-reach, reach). The reach is a
/// power of two; a value outside doubles it and merges bins two by two, which is exact, so that
/// neither the order of the values nor how they are cut into calls changes the result.
/// Thread contract: none.
class Histogram {
 public:
  static constexpr int kBins = BinCounts::kBins;

  /// All values must be finite, and none larger than `most`, which one of them is but for its sign.
  /// Up to `threads` threads count.
  void Add(std::span<const float> values, float most, int threads = 1);

  double reach() const { return reach_; }  ///< 0 where no value but 0 came
  double width() const { return 2 * reach_ / kBins; }
  double Edge(int bin) const { return (bin - kBins / 2) * width(); }  ///< the lower one
  double Center(int bin) const { return Edge(bin) + width() / 2; }
  /// Empty where no value but 0 came. Exact zeros are in none of the bins.
  std::span<const uint64_t> counts() const { return counts_; }
  uint64_t zeros() const { return zeros_; }
  uint64_t total() const { return total_; }  ///< zeros and all bins

 private:
  void GrowTo(float magnitude);

  double reach_ = 0;
  uint64_t zeros_ = 0, total_ = 0;
  std::vector<uint64_t> counts_;
};

/// Everything that a rule for ranges may ask of one quantization point.
class Observer {
 public:
  /// How much of a new sample goes into the moving ends.
  static constexpr double kMomentum = 0.01;

  /// The values of one sample. False, and nothing is remembered, if one of them is NaN or infinite.
  /// What is remembered is the same for any number of threads.
  bool Add(std::span<const float> values, int threads = 1);

  bool empty() const { return histogram_.total() == 0; }
  double min() const { return min_; }
  double max() const { return max_; }
  /// Averages of the samples' own ends that forget old samples slowly.
  double moving_min() const { return moving_min_; }
  double moving_max() const { return moving_max_; }
  const Histogram& histogram() const { return histogram_; }

 private:
  Histogram histogram_;
  double min_ = 0, max_ = 0, moving_min_ = 0, moving_max_ = 0;
};

}  // namespace oort::quantize
