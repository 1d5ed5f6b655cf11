// SPDX-License-Identifier: MIT
#pragma once

#include "cpu/kernels.h"

namespace oort {

/// `rows` rows of `width` elements, `step` apart. y may be x.
struct SoftmaxBlock {
  const float* x;
  float* y;
  int64_t rows, step, width;
};

/// All kernels work on sign * x, so that softmin is softmax with sign -1.
struct SoftmaxKernels {
  /// The largest of sign * x, or NaN where there is one.
  float (*row_max)(const float* x, int64_t count, float sign);
  /// The sum of exp(x - max), where no x is above max, which is finite or NaN.
  double (*sum_exp)(const float* x, int64_t count, float max);
  void (*softmax_row)(const float* x, float* y, int64_t count, float sign);
  void (*log_softmax_row)(const float* x, float* y, int64_t count, float sign);
  /// Down the columns of a block.
  void (*softmax_columns)(const SoftmaxBlock& block, float sign);
  void (*log_softmax_columns)(const SoftmaxBlock& block, float sign);
};
OORT_DECLARE_KERNELS(SoftmaxKernels)

}  // namespace oort
