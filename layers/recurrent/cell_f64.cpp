// SPDX-License-Identifier: MIT
#include <cmath>

#include "layers/recurrent/cell_kernels.h"

namespace oort {
namespace {

using StepF64 = CellStepOf<double>;

double SigmoidF64(double x) { return 1 / (1 + std::exp(-x)); }

void LstmF64(const StepF64& step) {
  for (int64_t i = 0; i < step.hidden; ++i) {
    const auto gate = [&](int64_t g) {
      return step.x[g * step.hidden + i] + step.h[g * step.hidden + i];
    };
    const double input = SigmoidF64(gate(0)), forget = SigmoidF64(gate(1));
    const double candidate = std::tanh(gate(2)), output = SigmoidF64(gate(3));
    step.c[i] = forget * step.c[i] + input * candidate;
    step.y[i] = output * std::tanh(step.c[i]);
  }
}

void GruF64(const StepF64& step) {
  for (int64_t i = 0; i < step.hidden; ++i) {
    const auto x = [&](int64_t g) { return step.x[g * step.hidden + i]; };
    const auto h = [&](int64_t g) { return step.h[g * step.hidden + i]; };
    const double reset = SigmoidF64(x(0) + h(0)), update = SigmoidF64(x(1) + h(1));
    const double candidate = std::tanh(x(2) + reset * h(2));
    step.y[i] = candidate + update * (step.last[i] - candidate);
  }
}

void TanhF64(const StepF64& step) {
  for (int64_t i = 0; i < step.hidden; ++i) step.y[i] = std::tanh(step.x[i] + step.h[i]);
}

void ReluF64(const StepF64& step) {
  for (int64_t i = 0; i < step.hidden; ++i) {
    const double sum = step.x[i] + step.h[i];
    step.y[i] = sum < 0 ? 0 : sum;  // NaN stays
  }
}

}  // namespace

const CellKernelsF64 kCellKernelsF64 = {
    .lstm = LstmF64, .gru = GruF64, .tanh = TanhF64, .relu = ReluF64};

}  // namespace oort
