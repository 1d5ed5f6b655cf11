// SPDX-License-Identifier: MIT
#include "cpu/formulas.h"
#include "cpu/unroll.h"
#include "cpu/vec_math.h"
#include "layers/expression/kernels.h"

namespace oort::OORT_ISA {
namespace {

using expression::Function;
using expression::Kernel;

/// Lambdas without captures are stateless types, so a kernel can be made from the type alone.
/// Several vectors a turn hide the latency of long formulas.
template <typename Op>
void Map1(const void* const* args, void* out, int64_t count) {
  const float* x = static_cast<const float*>(args[0]);
  float* y = static_cast<float*>(out);
  const Op op;
  int64_t i = 0;
  constexpr int kTurn = 4;
  for (; i + kTurn * Vec::kWidth <= count; i += kTurn * Vec::kWidth) {
    Vec results[kTurn];
    Unroll<kTurn>([&](auto v) { results[v] = op(Vec::Load(x + i + v * Vec::kWidth)); });
    Unroll<kTurn>([&](auto v) { results[v].Store(y + i + v * Vec::kWidth); });
  }
  MapVec(x + i, y + i, count - i, op);
}

template <typename Op>
void Map2(const void* const* args, void* out, int64_t count) {
  MapVec(static_cast<const float*>(args[0]), static_cast<const float*>(args[1]),
         static_cast<float*>(out), count, Op());
}

template <typename Op>
void Map3(const void* const* args, void* out, int64_t count) {
  const float* a = static_cast<const float*>(args[0]);
  const float* b = static_cast<const float*>(args[1]);
  const float* c = static_cast<const float*>(args[2]);
  float* y = static_cast<float*>(out);
  const Op op;
  int64_t i = 0;
  for (; i + Vec::kWidth <= count; i += Vec::kWidth) {
    op(Vec::Load(a + i), Vec::Load(b + i), Vec::Load(c + i)).Store(y + i);
  }
  if (i < count) {
    const int rest = static_cast<int>(count - i);
    op(Vec::LoadPartial(a + i, rest), Vec::LoadPartial(b + i, rest), Vec::LoadPartial(c + i, rest))
        .StorePartial(y + i, rest);
  }
}

constexpr ExpressionKernels MakeTable() {
  ExpressionKernels table;
  const auto set = [&table](Function function, Kernel kernel) {
    table.functions[static_cast<size_t>(function)] = kernel;
  };
#define OORT_VECTOR_None(name, arity)
#define OORT_VECTOR_Vector(name, arity) \
  set(Function::k##name, &Map##arity<decltype([](auto... v) -> Vec { return name(v...); })>);
#define OORT_VECTOR_Formula(name, arity) \
  set(Function::k##name,                 \
      &Map##arity<decltype([](auto... v) -> Vec { return formulas::name(v...); })>);
#define OORT_VECTOR_F16(name, arity) OORT_VECTOR_Formula(name, arity)
#define OORT_FUNCTION(id, name, arity, rule, scalar, vector, ...) OORT_VECTOR_##vector(id, arity)
#include "parser/expression/functions.inc"
#undef OORT_VECTOR_None
#undef OORT_VECTOR_Vector
#undef OORT_VECTOR_Formula
#undef OORT_VECTOR_F16
  return table;
}

}  // namespace
}  // namespace oort::OORT_ISA

OORT_DEFINE_KERNELS(ExpressionKernels, OORT_ISA::MakeTable())
