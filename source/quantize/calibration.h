// SPDX-License-Identifier: MIT
// What calibration does to every value of every sample.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/kernels.h"

namespace oort {

/// Counts of values by bins of equal width around zero, in two tables by turns: neighbours often
/// are alike, and a count that is written waits for no other. Behind the bins of each are those of
/// zeros, of which many follow each other.
struct BinCounts {
  static constexpr int kBins = 8192, kZeroSlots = 16, kSlots = kBins + kZeroSlots, kTables = 2;
};

struct CalibrationKernels {
  /// The least and the greatest of at least one value; false where one is NaN or infinite.
  bool (*ends)(const float* x, int64_t count, float* low, float* high);
  /// Adds to kTables * kSlots counts. The products of values and `scale`, a power of two, are
  /// inside of (-kBins / 2, kBins / 2).
  void (*count)(const float* x, int64_t count, float scale, uint32_t* counts);
  /// y = Round(clamp(x * inverse, low, high)) * scale, half to even. No x is NaN.
  void (*round)(const float* x, float* y, int64_t count, float inverse, float low, float high,
                float scale);
  /// sums[i] += x[i + row * step] for each row in turn.
  void (*add_rows)(const float* x, int64_t step, int64_t rows, double* sums, int64_t count);
};
OORT_DECLARE_KERNELS(CalibrationKernels)

}  // namespace oort
