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
void Unary(const void* const* args, void* out, int64_t count) {
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
void Binary(const void* const* args, void* out, int64_t count) {
  MapVec(static_cast<const float*>(args[0]), static_cast<const float*>(args[1]),
         static_cast<float*>(out), count, Op());
}

template <typename Op>
void Ternary(const void* const* args, void* out, int64_t count) {
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
#define OORT_UNARY(name, formula) \
  set(Function::k##name, &Unary<decltype([](Vec x) -> Vec { return formula; })>)
#define OORT_BINARY(name, formula) \
  set(Function::k##name, &Binary<decltype([](Vec a, Vec b) -> Vec { return formula; })>)
#define OORT_TERNARY(name, formula) \
  set(Function::k##name, &Ternary<decltype([](Vec a, Vec b, Vec c) -> Vec { return formula; })>)
  OORT_UNARY(Abs, Abs(x));
  OORT_UNARY(Ceil, Ceil(x));
  OORT_UNARY(Cos, Cos(x));
  OORT_UNARY(Erf, Erf(x));
  OORT_UNARY(Exp, Exp(x));
  OORT_UNARY(Expm1, Expm1(x));
  OORT_UNARY(Floor, Floor(x));
  OORT_UNARY(Gelu, formulas::Gelu(x));
  OORT_UNARY(GeluTanh, formulas::GeluTanh(x));
  OORT_UNARY(Hardsigmoid, formulas::Hardsigmoid(x));
  OORT_UNARY(Hardswish, formulas::Hardswish(x));
  OORT_UNARY(Log, Log(x));
  OORT_UNARY(Log1p, Log1p(x));
  OORT_UNARY(Logsigmoid, formulas::Logsigmoid(x));
  OORT_UNARY(Mish, formulas::Mish(x));
  OORT_UNARY(Neg, -x);
  OORT_UNARY(Reciprocal, Vec(1.0f) / x);
  OORT_UNARY(Relu, formulas::Relu(x));
  OORT_UNARY(Round, Round(x));
  OORT_UNARY(Rsqrt, Vec(1.0f) / Sqrt(x));
  OORT_UNARY(Selu, formulas::Selu(x));
  OORT_UNARY(Sigmoid, Sigmoid(x));
  OORT_UNARY(Sign, formulas::Sign(x));
  OORT_UNARY(Silu, Silu(x));
  OORT_UNARY(Sin, Sin(x));
  OORT_UNARY(Softsign, formulas::Softsign(x));
  OORT_UNARY(Sqrt, Sqrt(x));
  OORT_UNARY(Tan, Tan(x));
  OORT_UNARY(Tanh, Tanh(x));
  OORT_UNARY(Tanhshrink, formulas::Tanhshrink(x));
  OORT_UNARY(Trunc, Trunc(x));
  OORT_BINARY(Add, a + b);
  OORT_BINARY(Celu, formulas::Celu(a, b));
  OORT_BINARY(Div, a / b);
  OORT_BINARY(Elu, formulas::Elu(a, b));
  OORT_BINARY(Hardshrink, formulas::Hardshrink(a, b));
  OORT_BINARY(LeakyRelu, formulas::LeakyRelu(a, b));
  OORT_BINARY(Logaddexp, formulas::Logaddexp(a, b));
  OORT_BINARY(Maximum, Max(a, b));
  OORT_BINARY(Minimum, Min(a, b));
  OORT_BINARY(Mul, a * b);
  OORT_BINARY(Softshrink, formulas::Softshrink(a, b));
  OORT_BINARY(Sub, a - b);
  OORT_TERNARY(Clamp, formulas::Clamp(a, b, c));
  OORT_TERNARY(Softplus, formulas::Softplus(a, b, c));
  OORT_TERNARY(Threshold, formulas::Threshold(a, b, c));
#undef OORT_UNARY
#undef OORT_BINARY
#undef OORT_TERNARY
  return table;
}

}  // namespace
}  // namespace oort::OORT_ISA

OORT_DEFINE_KERNELS(ExpressionKernels, OORT_ISA::MakeTable())
