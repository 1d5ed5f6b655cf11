// SPDX-License-Identifier: MIT
#pragma once

#include "cpu/kernels.h"

namespace oort {

/// One step of one sequence. `x` and `h` hold what the input and the last state contribute to each
/// gate, `hidden` elements a gate, in the order of torch's weights.
template <typename T>
struct CellStepOf {
  const T* x = nullptr;
  const T* h = nullptr;
  const T* last = nullptr;  ///< the last state; only GRU reads it
  T* c = nullptr;           ///< only LSTM: the cell state, updated in place
  T* y = nullptr;           ///< the new state
  int64_t hidden = 0;
};

using CellStep = CellStepOf<float>;

struct CellKernels {
  void (*lstm)(const CellStep& step);
  void (*gru)(const CellStep& step);
  void (*tanh)(const CellStep& step);
  void (*relu)(const CellStep& step);
};
OORT_DECLARE_KERNELS(CellKernels)

/// The same in f64, one element at a time.
struct CellKernelsF64 {
  void (*lstm)(const CellStepOf<double>& step);
  void (*gru)(const CellStepOf<double>& step);
  void (*tanh)(const CellStepOf<double>& step);
  void (*relu)(const CellStepOf<double>& step);
};
extern const CellKernelsF64 kCellKernelsF64;

}  // namespace oort
