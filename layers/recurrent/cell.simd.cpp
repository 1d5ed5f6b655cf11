// SPDX-License-Identifier: MIT
#include "cpu/vec.h"
#include "cpu/vec_math.h"
#include "layers/recurrent/cell_kernels.h"

namespace oort::OORT_ISA {
namespace {

/// The elements [at, at + lanes) of all operands, whole vectors or a rest.
struct Lanes {
  int64_t at;
  int lanes;
  Vec Load(const float* p) const {
    return lanes == Vec::kWidth ? Vec::Load(p + at) : Vec::LoadPartial(p + at, lanes);
  }
  void Store(Vec value, float* p) const {
    if (lanes == Vec::kWidth) {
      value.Store(p + at);
    } else {
      value.StorePartial(p + at, lanes);
    }
  }
};

template <typename Body>
void ForLanes(int64_t count, Body body) {
  int64_t i = 0;
  for (; i + Vec::kWidth <= count; i += Vec::kWidth) body(Lanes{i, Vec::kWidth});
  if (i < count) body(Lanes{i, static_cast<int>(count - i)});
}

void Lstm(const CellStep& step) {
  ForLanes(step.hidden, [&step](Lanes at) {
    const auto gate = [&](int i) {
      return at.Load(step.x + i * step.hidden) + at.Load(step.h + i * step.hidden);
    };
    const Vec input = Sigmoid(gate(0)), forget = Sigmoid(gate(1));
    const Vec candidate = Tanh(gate(2)), output = Sigmoid(gate(3));
    const Vec c = Fma(forget, at.Load(step.c), input * candidate);
    at.Store(c, step.c);
    at.Store(output * Tanh(c), step.y);
  });
}

void Gru(const CellStep& step) {
  ForLanes(step.hidden, [&step](Lanes at) {
    const auto x = [&](int i) { return at.Load(step.x + i * step.hidden); };
    const auto h = [&](int i) { return at.Load(step.h + i * step.hidden); };
    const Vec reset = Sigmoid(x(0) + h(0)), update = Sigmoid(x(1) + h(1));
    const Vec candidate = Tanh(Fma(reset, h(2), x(2)));
    at.Store(Fma(update, at.Load(step.last) - candidate, candidate), step.y);
  });
}

void PlainTanh(const CellStep& step) {
  MapVec(step.x, step.h, step.y, step.hidden, [](Vec x, Vec h) { return Tanh(x + h); });
}

void PlainRelu(const CellStep& step) {
  MapVec(step.x, step.h, step.y, step.hidden, [](Vec x, Vec h) { return Max(x + h, 0.0f); });
}

}  // namespace
}  // namespace oort::OORT_ISA

OORT_DEFINE_KERNELS(CellKernels, {.lstm = Lstm, .gru = Gru, .tanh = PlainTanh, .relu = PlainRelu})
