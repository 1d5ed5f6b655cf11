// SPDX-License-Identifier: MIT
#pragma once

#include "cpu/kernels.h"

namespace oort {

/// One token of a short convolution: y[c] = silu(bias[c] + the sum over taps of an input of channel
/// c times weight[tap * channels + c]).
struct ConvolvedToken {
  const float* before = nullptr;  ///< inputs of the first `taps_before` taps, (taps, channels)
  const float* rows = nullptr;    ///< of the others, likewise
  int64_t taps_before = 0, taps = 0, channels = 0;
  const float* weight = nullptr;  ///< (taps, channels)
  const float* bias = nullptr;    ///< (channels)
  float* y = nullptr;             ///< (channels)
};

/// One token of a recurrence: each row r of the state (rows, size) becomes
/// decay * row + x[r] * step * b, and y[r] = row c + skip * x[r].
struct StateStep {
  float* state = nullptr;
  int64_t rows = 0, size = 0;
  float decay = 0, step = 0, skip = 0;
  const float* x = nullptr;  ///< (rows)
  const float* b = nullptr;  ///< (size), likewise c
  const float* c = nullptr;
  float* y = nullptr;  ///< (rows)
};

struct StateSpaceKernels {
  void (*convolve)(const ConvolvedToken& token);
  void (*step)(const StateStep& token);
};
OORT_DECLARE_KERNELS(StateSpaceKernels)

}  // namespace oort
