// SPDX-License-Identifier: MIT
// Functions whose result in f16 is that in f32, rounded: f32 has more than twice the digits.
#include "cpu/formulas.h"
#include "cpu/lanes.h"
#include "cpu/unroll.h"
#include "layers/expression/kernels.h"

namespace oort::OORT_ISA {
namespace {

using expression::Function;
using expression::HalfExpressionKernels;

template <typename Op>
void MapHalves2(const void* const* args, void* out, int64_t count) {
  constexpr int kStep = HalfVec::kWidth, kTurn = 4;
  const Half *a = static_cast<const Half*>(args[0]), *b = static_cast<const Half*>(args[1]);
  Half* y = static_cast<Half*>(out);
  const Op op;
  int64_t i = 0;
  for (; i + kTurn * kStep <= count; i += kTurn * kStep) {
    HalfVec results[kTurn];
    Unroll<kTurn>([&](auto v) {
      results[v] = op(HalfVec::Load(a + i + v * kStep), HalfVec::Load(b + i + v * kStep));
    });
    Unroll<kTurn>([&](auto v) { results[v].Store(y + i + v * kStep); });
  }
  for (; i < count; i += kStep) {
    const int rest = count - i < kStep ? static_cast<int>(count - i) : kStep;
    op(HalfVec::LoadPartial(a + i, rest), HalfVec::LoadPartial(b + i, rest))
        .StorePartial(y + i, rest);
  }
}

/// Of one argument, which stands for both.
template <typename Op>
void MapHalves1(const void* const* args, void* out, int64_t count) {
  const void* const both[] = {args[0], args[0]};
  using OfFirst = decltype([](HalfVec x, HalfVec) -> HalfVec { return Op()(x); });
  MapHalves2<OfFirst>(both, out, count);
}

void WidenHalves(const void* const* args, void* out, int64_t count) {
  constexpr int kStep = HalfVec::kWidth;
  const Half* x = static_cast<const Half*>(args[0]);
  float* y = static_cast<float*>(out);
  int64_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    const HalfVec both = HalfVec::Load(x + i);
    Low(both).Store(y + i);
    High(both).Store(y + i + kStep / 2);
  }
  if (i == count) return;
  alignas(64) float rest[kStep];
  const HalfVec both = HalfVec::LoadPartial(x + i, static_cast<int>(count - i));
  Low(both).Store(rest);
  High(both).Store(rest + kStep / 2);
  for (int64_t j = 0; i < count; ++i, ++j) y[i] = rest[j];
}

void NarrowFloats(const void* const* args, void* out, int64_t count) {
  constexpr int kStep = HalfVec::kWidth;
  const float* x = static_cast<const float*>(args[0]);
  Half* y = static_cast<Half*>(out);
  int64_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    Narrow(Vec::Load(x + i), Vec::Load(x + i + kStep / 2)).Store(y + i);
  }
  if (i == count) return;
  alignas(64) float rest[kStep] = {};
  for (int64_t j = 0; i + j < count; ++j) rest[j] = x[i + j];
  Narrow(Vec::Load(rest), Vec::Load(rest + kStep / 2))
      .StorePartial(y + i, static_cast<int>(count - i));
}

constexpr HalfExpressionKernels MakeHalfTable() {
  HalfExpressionKernels table;
  table.widen = &WidenHalves;
  table.narrow = &NarrowFloats;
  const auto set = [&table](Function function, expression::Kernel kernel) {
    table.functions[static_cast<size_t>(function)] = kernel;
  };
#define OORT_VECTOR_None(name, arity)
#define OORT_VECTOR_Vector(name, arity)
#define OORT_VECTOR_Formula(name, arity)
#define OORT_VECTOR_F16(name, arity) \
  set(Function::k##name,             \
      &MapHalves##arity<decltype([](auto... v) -> HalfVec { return formulas::name(v...); })>);
#define OORT_FUNCTION(id, name, arity, rule, scalar, vector, ...) OORT_VECTOR_##vector(id, arity)
#include "parser/expression/functions.inc"
#undef OORT_VECTOR_None
#undef OORT_VECTOR_Vector
#undef OORT_VECTOR_Formula
#undef OORT_VECTOR_F16
  return table;
}

}  // namespace

const HalfExpressionKernels& HalfExpressionKernelsGet() {
  static constexpr HalfExpressionKernels kTable = MakeHalfTable();
  return kTable;
}

}  // namespace oort::OORT_ISA
