// SPDX-License-Identifier: MIT
#include "layers/state_space/state_space_kernels.h"

#include "cpu/vec.h"
#include "cpu/vec_math.h"

namespace oort::OORT_ISA {
namespace {

void Convolve(const float* const* inputs, const float* weight, const float* bias, float* y,
              int64_t taps, int64_t channels) {
  int64_t i = 0;
  for (; i + Vec::kWidth <= channels; i += Vec::kWidth) {
    Vec sum = Vec::Load(bias + i);
    for (int64_t t = 0; t < taps; ++t) {
      sum = Fma(Vec::Load(inputs[t] + i), Vec::Load(weight + t * channels + i), sum);
    }
    Silu(sum).Store(y + i);
  }
  if (i == channels) return;
  const int rest = static_cast<int>(channels - i);
  Vec sum = Vec::LoadPartial(bias + i, rest);
  for (int64_t t = 0; t < taps; ++t) {
    sum = Fma(Vec::LoadPartial(inputs[t] + i, rest),
              Vec::LoadPartial(weight + t * channels + i, rest), sum);
  }
  Silu(sum).StorePartial(y + i, rest);
}

/// Rows that are worked on together, so that b and c are loaded once for them.
template <int kRows>
void StepRows(const StateStep& token, int64_t row) {
  const int64_t size = token.size;
  float* const state = token.state + row * size;
  const Vec decay(token.decay);
  Vec x[kRows], sum[kRows];
  for (int r = 0; r < kRows; ++r) {
    x[r] = Vec(token.x[row + r] * token.step);
    sum[r] = Vec::Zero();
  }
  int64_t i = 0;
  for (; i + Vec::kWidth <= size; i += Vec::kWidth) {
    const Vec b = Vec::Load(token.b + i), c = Vec::Load(token.c + i);
    for (int r = 0; r < kRows; ++r) {
      const Vec next = Fma(Vec::Load(state + r * size + i), decay, x[r] * b);
      next.Store(state + r * size + i);
      sum[r] = Fma(next, c, sum[r]);
    }
  }
  if (i < size) {
    const int rest = static_cast<int>(size - i);
    const Vec b = Vec::LoadPartial(token.b + i, rest), c = Vec::LoadPartial(token.c + i, rest);
    for (int r = 0; r < kRows; ++r) {
      const Vec next = Fma(Vec::LoadPartial(state + r * size + i, rest), decay, x[r] * b);
      next.StorePartial(state + r * size + i, rest);
      sum[r] = Fma(next, c, sum[r]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    token.y[row + r] = ReduceAdd(sum[r]) + token.skip * token.x[row + r];
  }
}

void Step(const StateStep& token) {
  constexpr int kTogether = 4;
  int64_t row = 0;
  for (; row + kTogether <= token.rows; row += kTogether) StepRows<kTogether>(token, row);
  for (; row < token.rows; ++row) StepRows<1>(token, row);
}

}  // namespace
}  // namespace oort::OORT_ISA

OORT_DEFINE_KERNELS(StateSpaceKernels, {.convolve = OORT_ISA::Convolve, .step = OORT_ISA::Step})
