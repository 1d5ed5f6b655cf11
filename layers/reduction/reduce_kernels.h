// SPDX-License-Identifier: MIT
// Sums, moments and extremes of f32, shared by reductions, normalizations and global pooling. Short
// runs are summed in f32 lanes, and the runs in f64, so that the error does not grow with the
// length (blocked summation).
#pragma once

#include "cpu/kernels.h"

namespace oort {

/// Mean and sum of squared differences from it.
struct Moments {
  double mean;
  double squares;
};

/// Sums of differences from some center, and of their squares.
struct Deviations {
  double sum = 0, squares = 0;
};

/// `rows` rows of `width` elements, `step` apart.
struct RowBlock {
  const float* first;
  int64_t rows, step, width;
};

struct ReduceKernels {
  double (*sum)(const float* x, int64_t count);
  double (*sum_squares)(const float* x, int64_t count);
  double (*sum_abs)(const float* x, int64_t count);
  Moments (*moments)(const float* x, int64_t count);
  /// Adds the differences from `center` and their squares to what is there.
  void (*deviations)(const float* x, int64_t count, float center, Deviations& into);
  /// -inf (inf) for no elements; NaN wins.
  float (*max)(const float* x, int64_t count);
  float (*min)(const float* x, int64_t count);
  // The same down the columns of a block, added to (held against) what `into` holds.
  void (*sum_columns)(const RowBlock& block, double* into);
  void (*max_columns)(const RowBlock& block, float* into);
  void (*min_columns)(const RowBlock& block, float* into);
};
OORT_DECLARE_KERNELS(ReduceKernels)

}  // namespace oort
