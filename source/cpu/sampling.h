// SPDX-License-Identifier: MIT
// What picking a token does to a row of logits.
#pragma once

#include "cpu/kernels.h"

namespace oort {

struct SamplingKernels {
  /// The largest of x; -infinity where there are only NaNs.
  float (*max)(const float* x, int64_t count);
  /// y = exp((x - max) * scale), 0 where x is NaN; returns the sum. y may be null.
  double (*exp_sum)(const float* x, float* y, int64_t count, float max, float scale);
};
OORT_DECLARE_KERNELS(SamplingKernels)

/// The index of the largest number, the lowest of equal ones; -1 where none is above -infinity.
int32_t ArgmaxOf(const SamplingKernels& kernels, const float* row, int64_t count);

}  // namespace oort
