// SPDX-License-Identifier: MIT
#pragma once

#include "cpu/kernels.h"

namespace oort {

/// One step of one sequence. `x` and `h` hold what the input and the last state contribute to each
/// gate, `hidden` elements a gate, in the order of torch's weights.
struct CellStep {
  const float* x = nullptr;
  const float* h = nullptr;
  const float* last = nullptr;  ///< the last state; only GRU reads it
  float* c = nullptr;           ///< only LSTM: the cell state, updated in place
  float* y = nullptr;           ///< the new state
  int64_t hidden = 0;
};

struct CellKernels {
  void (*lstm)(const CellStep& step);
  void (*gru)(const CellStep& step);
  void (*tanh)(const CellStep& step);
  void (*relu)(const CellStep& step);
};
OORT_DECLARE_KERNELS(CellKernels)

}  // namespace oort
