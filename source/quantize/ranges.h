// SPDX-License-Identifier: MIT
// From what was observed to scales and zero points.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quantize/observer.h"

namespace oort::quantize {

/// How the ends of a range are found.
enum class Method {
  kMinMax,         ///< the least and the greatest value
  kMovingAverage,  ///< the moving averages of each sample's ends
  kPercentile,     ///< as many values as it says lie inside, half of the others at each side
  kKl,             ///< least Kullback-Leibler divergence; symmetric unless all values are >= 0
  kMse,            ///< least squared error of all values, those that are clipped among them
};
std::string_view Name(Method method);
std::optional<Method> MethodOf(std::string_view name);
/// "minmax, moving-average, …"
std::string MethodNames();

struct Range {
  double low = 0, high = 0;
  bool operator==(const Range&) const = default;
};

inline constexpr double kDefaultPercentile = 99.999;
/// Of an observer that has seen values. Zero is inside: low <= 0 <= high.
Range ChooseRange(const Observer& observer, Method method, double percentile = kDefaultPercentile);

/// Bytes 0 … 255 that stand for scale * (q - zero_point).
struct Grid {
  float scale = 1;
  int zero_point = 0;
  bool operator==(const Grid&) const = default;

  int Quantize(float value) const;  ///< as oort.Quantize: half to even, clamped
  float Dequantize(int q) const { return static_cast<float>(q - zero_point) * scale; }
  float Round(float value) const { return Dequantize(Quantize(value)); }
};
/// As wide below zero as above, unless nothing of it is below.
Range SymmetricRange(const Range& range);

/// Zero is on the grid. A range that is zero alone gives scale 1; one whose scale is no number that
/// f32 holds with its inverse throws kInvalidArgument.
Grid GridOf(const Range& range);

/// Share of the observed values outside of the range.
double ClippedShare(const Histogram& histogram, const Range& range);

/// How scales of weights are found: by their largest, or by the least squared error.
enum class WeightMethod { kMinMax, kMse };

/// One channel of weights in -127 … 127 for each row of `weights`.
struct QuantizedWeights {
  std::vector<int8_t> values;
  std::vector<float> scales;  ///< one a row
};
/// Symmetric, a scale for each of `rows` equal parts. Throws kInvalidArgument where a weight is not
/// finite. A row of zeros has the scale of the largest row times 2^-20, as the least that any has.
/// The result is the same for any number of threads.
QuantizedWeights QuantizeRows(std::span<const float> weights, int64_t rows, WeightMethod method,
                              int threads = 1);
/// The same with one scale for all rows.
QuantizedWeights QuantizeAlike(std::span<const float> weights, int64_t rows, WeightMethod method,
                               int threads = 1);

}  // namespace oort::quantize
