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

/// Tokens of a gated delta rule (Yang, Kautz and Hatamizadeh 2025): the state (rows, size) is first
/// multiplied with the token's decay; each row r then comes nearer to what should be read of it by
/// the token's key, by row += beta * (v[r] - row k) k, and y[r] = row q. Rows do not know of each
/// other, so each stays in the nearest cache for all tokens.
struct DeltaSteps {
  float* state = nullptr;
  int64_t rows = 0, size = 0, tokens = 0;
  const float* decay = nullptr;  ///< (tokens), likewise beta
  const float* beta = nullptr;
  const float* k = nullptr;  ///< (tokens, size), likewise q
  const float* q = nullptr;
  const float* v = nullptr;  ///< (rows) of the first token; that of the next is v_stride behind
  int64_t v_stride = 0;
  float* y = nullptr;  ///< likewise
  int64_t y_stride = 0;
};

struct StateSpaceKernels {
  void (*convolve)(const ConvolvedToken& token);
  void (*step)(const StateStep& token);
  void (*delta_steps)(const DeltaSteps& steps);
  /// y = scale * x / sqrt(x x + epsilon), of `size` numbers.
  void (*normalize)(const float* x, int64_t size, float epsilon, float scale, float* y);
};
OORT_DECLARE_KERNELS(StateSpaceKernels)

}  // namespace oort
