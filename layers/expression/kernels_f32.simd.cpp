// SPDX-License-Identifier: MIT
#include "cpu/formulas.h"
#include "cpu/unroll.h"
#include "cpu/vec_math.h"
#include "layers/expression/kernels.h"

namespace oort::OORT_ISA {
namespace {

using expression::Function;
using expression::Kernel;

constexpr int kTurn = 4;  // vectors a turn: they hide the latency of long formulas

/// y[i] = op(x[i]); x and y may be the same array.
template <typename Op>
[[gnu::always_inline]] inline void MapTurns(const float* x, float* y, int64_t count, Op op) {
  int64_t i = 0;
  for (; i + kTurn * Vec::kWidth <= count; i += kTurn * Vec::kWidth) {
    Vec results[kTurn];
    Unroll<kTurn>([&](auto v) { results[v] = op(Vec::Load(x + i + v * Vec::kWidth)); });
    Unroll<kTurn>([&](auto v) { results[v].Store(y + i + v * Vec::kWidth); });
  }
  MapVec(x + i, y + i, count - i, op);
}

/// x[i] * NormalCdf(x[i]), as formulas::Gelu, of several vectors in step.
void MapGelu(const void* const* args, void* out, int64_t count) {
  const float* x = static_cast<const float*>(args[0]);
  float* y = static_cast<float*>(out);
  int64_t i = 0;
  for (; i + kTurn * Vec::kWidth <= count; i += kTurn * Vec::kWidth) {
    Vec cdf[kTurn];
    Unroll<kTurn>([&](auto v) { cdf[v] = Vec::Load(x + i + v * Vec::kWidth); });
    NormalCdfs(cdf);
    Unroll<kTurn>([&](auto v) {
      const int64_t at = i + v * Vec::kWidth;
      (Vec::Load(x + at) * cdf[v]).Store(y + at);
    });
  }
  MapVec(x + i, y + i, count - i, [](Vec v) { return formulas::Gelu(v); });
}

/// Lambdas without captures are stateless types, so a kernel can be made from the type alone.
template <typename Op>
void Map1(const void* const* args, void* out, int64_t count) {
  MapTurns(static_cast<const float*>(args[0]), static_cast<float*>(out), count, Op());
}

/// Where `kRepeated` is 0 or 1, that argument is one element that stands for all.
template <typename Op, int kRepeated = -1>
void Map2(const void* const* args, void* out, int64_t count) {
  const float* a = static_cast<const float*>(args[0]);
  const float* b = static_cast<const float*>(args[1]);
  float* y = static_cast<float*>(out);
  if constexpr (kRepeated == 0) {
    MapTurns(b, y, count, [first = Vec(*a)](Vec v) { return Op()(first, v); });
  } else if constexpr (kRepeated == 1) {
    MapTurns(a, y, count, [second = Vec(*b)](Vec v) { return Op()(v, second); });
  } else {
    int64_t i = 0;
    for (; i + kTurn * Vec::kWidth <= count; i += kTurn * Vec::kWidth) {
      Vec results[kTurn];
      Unroll<kTurn>([&](auto v) {
        const int64_t at = i + v * Vec::kWidth;
        results[v] = Op()(Vec::Load(a + at), Vec::Load(b + at));
      });
      Unroll<kTurn>([&](auto v) { results[v].Store(y + i + v * Vec::kWidth); });
    }
    MapVec(a + i, b + i, y + i, count - i, Op());
  }
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

template <int arity, typename Op>
constexpr void SetRepeated(ExpressionKernels& table, Function function) {
  if constexpr (arity == 2) {
    table.repeated[0][static_cast<size_t>(function)] = &Map2<Op, 0>;
    table.repeated[1][static_cast<size_t>(function)] = &Map2<Op, 1>;
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
#define OORT_FORMULA(name) decltype([](auto... v) -> Vec { return formulas::name(v...); })
#define OORT_VECTOR_Formula(name, arity) set(Function::k##name, &Map##arity<OORT_FORMULA(name)>);
// What rounds alike in f16 is plain arithmetic, for which a block of equal numbers would be much.
#define OORT_VECTOR_F16(name, arity) \
  OORT_VECTOR_Formula(name, arity) SetRepeated<arity, OORT_FORMULA(name)>(table, Function::k##name);
#define OORT_FUNCTION(id, name, arity, rule, scalar, vector, ...) OORT_VECTOR_##vector(id, arity)
#include "parser/expression/functions.inc"
#undef OORT_VECTOR_None
#undef OORT_VECTOR_Vector
#undef OORT_VECTOR_Formula
#undef OORT_VECTOR_F16
#undef OORT_FORMULA
  set(Function::kGelu, &MapGelu);
  return table;
}

}  // namespace
}  // namespace oort::OORT_ISA

OORT_DEFINE_KERNELS(ExpressionKernels, OORT_ISA::MakeTable())
