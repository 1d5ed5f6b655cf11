// SPDX-License-Identifier: MIT
#include "layers/state_space/state_space_kernels.h"

#include "cpu/vec.h"
#include "cpu/vec_math.h"

namespace oort::OORT_ISA {
namespace {

/// bias + the sum of products, of the channels from i on that `load` reads.
template <typename Load>
Vec ConvolveFrom(const ConvolvedToken& token, int64_t i, Load load) {
  const int64_t channels = token.channels;
  Vec sum = load(token.bias + i);
  for (int64_t tap = 0; tap < token.taps; ++tap) {
    const bool before = tap < token.taps_before;
    const float* const input =
        before ? token.before + tap * channels : token.rows + (tap - token.taps_before) * channels;
    sum = Fma(load(input + i), load(token.weight + tap * channels + i), sum);
  }
  return Silu(sum);
}

void Convolve(const ConvolvedToken& token) {
  int64_t i = 0;
  for (; i + Vec::kWidth <= token.channels; i += Vec::kWidth) {
    ConvolveFrom(token, i, [](const float* p) { return Vec::Load(p); }).Store(token.y + i);
  }
  if (i == token.channels) return;
  const int rest = static_cast<int>(token.channels - i);
  ConvolveFrom(token, i, [rest](const float* p) {
    return Vec::LoadPartial(p, rest);
  }).StorePartial(token.y + i, rest);
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

/// Calls `body` with a function that loads numbers of `size`, and one that stores them, and where.
template <typename Body>
void ForVectors(int64_t size, Body body) {
  int64_t i = 0;
  for (; i + Vec::kWidth <= size; i += Vec::kWidth) {
    body(
        i, [](const float* p) { return Vec::Load(p); }, [](Vec x, float* p) { x.Store(p); });
  }
  if (i == size) return;
  const int rest = static_cast<int>(size - i);
  body(
      i, [rest](const float* p) { return Vec::LoadPartial(p, rest); },
      [rest](Vec x, float* p) { x.StorePartial(p, rest); });
}

template <int kRows>
void DeltaRows(const DeltaSteps& steps, int64_t row) {
  const int64_t size = steps.size;
  float* const state = steps.state + row * size;
  for (int64_t token = 0; token < steps.tokens; ++token) {
    const float* const k = steps.k + token * size;
    const float* const q = steps.q + token * size;
    const Vec decay(steps.decay[token]);
    Vec sum[kRows], delta[kRows];
    for (int r = 0; r < kRows; ++r) sum[r] = Vec::Zero();
    ForVectors(size, [&](int64_t i, auto load, auto) {
      const Vec key = load(k + i);
      for (int r = 0; r < kRows; ++r) sum[r] = Fma(load(state + r * size + i) * decay, key, sum[r]);
    });
    for (int r = 0; r < kRows; ++r) {
      const float wanted = steps.v[token * steps.v_stride + row + r];
      delta[r] = Vec((wanted - ReduceAdd(sum[r])) * steps.beta[token]);
      sum[r] = Vec::Zero();
    }
    ForVectors(size, [&](int64_t i, auto load, auto store) {
      const Vec key = load(k + i), query = load(q + i);
      for (int r = 0; r < kRows; ++r) {
        float* const at = state + r * size + i;
        const Vec next = Fma(delta[r], key, load(at) * decay);
        store(next, at);
        sum[r] = Fma(next, query, sum[r]);
      }
    });
    for (int r = 0; r < kRows; ++r) {
      steps.y[token * steps.y_stride + row + r] = ReduceAdd(sum[r]);
    }
  }
}

void RunDelta(const DeltaSteps& steps) {
  constexpr int kTogether = 4;
  int64_t row = 0;
  for (; row + kTogether <= steps.rows; row += kTogether) DeltaRows<kTogether>(steps, row);
  for (; row < steps.rows; ++row) DeltaRows<1>(steps, row);
}

void Normalize(const float* x, int64_t size, float epsilon, float scale, float* y) {
  Vec sum = Vec::Zero();
  ForVectors(size, [&](int64_t i, auto load, auto) { sum = Fma(load(x + i), load(x + i), sum); });
  const Vec factor = Vec(scale) / Sqrt(Vec(ReduceAdd(sum) + epsilon));
  ForVectors(size, [&](int64_t i, auto load, auto store) { store(load(x + i) * factor, y + i); });
}

}  // namespace
}  // namespace oort::OORT_ISA

OORT_DEFINE_KERNELS(StateSpaceKernels, {.convolve = OORT_ISA::Convolve,
                                        .step = OORT_ISA::Step,
                                        .delta_steps = OORT_ISA::RunDelta,
                                        .normalize = OORT_ISA::Normalize})
