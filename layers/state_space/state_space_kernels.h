// SPDX-License-Identifier: MIT
#pragma once

#include "cpu/kernels.h"

namespace oort {

struct StateSpaceKernels {
  /// One token of a short convolution: y[c] = silu(bias[c] + the sum over taps t of
  /// inputs[t][c] * weight[t * channels + c]).
  void (*convolve)(const float* const* inputs, const float* weight, const float* bias, float* y,
                   int64_t taps, int64_t channels);
  /// One token of a recurrence: each row r of the state (rows, size) becomes
  /// decay * row + x[r] * step * b, and y[r] = row c + skip * x[r].
  void (*step)(const struct StateStep& token);
};

struct StateStep {
  float* state = nullptr;
  int64_t rows = 0, size = 0;
  float decay = 0, step = 0, skip = 0;
  const float* x = nullptr;  ///< (rows)
  const float* b = nullptr;  ///< (size), likewise c
  const float* c = nullptr;
  float* y = nullptr;  ///< (rows)
};
OORT_DECLARE_KERNELS(StateSpaceKernels)

}  // namespace oort
