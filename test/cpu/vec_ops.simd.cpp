// SPDX-License-Identifier: MIT
#include "test/cpu/vec_ops.h"

#include "cpu/vec_math.h"

namespace oort::OORT_ISA {
namespace {

template <Vec (*op)(Vec)>
void Unary(const float* x, float* y, int64_t count) {
  MapVec(x, y, count, op);
}

template <typename Op>
constexpr UnaryKernel UnaryOf(Op) {
  return [](const float* x, float* y, int64_t count) { MapVec(x, y, count, Op{}); };
}
template <typename Op>
constexpr BinaryKernel BinaryOf(Op) {
  return
      [](const float* a, const float* b, float* y, int64_t count) { MapVec(a, b, y, count, Op{}); };
}
template <typename Op>
constexpr BinaryKernel CompareOf(Op) {
  return BinaryOf([](Vec a, Vec b) { return Select(Op{}(a, b), Vec(1.0f), Vec::Zero()); });
}

/// And, Or, Not, Any, All and None of the two comparisons, one bit a result.
Vec Logic(Vec a, Vec b) {
  const Mask p = a > 0.0f, q = b > 0.0f;
  const Vec zero = Vec::Zero();
  Vec r = Select(p & q, Vec(1.0f), zero) + Select(p | q, Vec(2.0f), zero);
  r = r + Select(Not(p), Vec(4.0f), zero);
  return r + (Any(p) ? 8.0f : 0.0f) + (All(p) ? 16.0f : 0.0f) + (None(p) ? 32.0f : 0.0f);
}

void FusedMultiply(const float* a, const float* b, const float* c, float* fma, float* fnma) {
  const Vec x = Vec::Load(a), y = Vec::Load(b), z = Vec::Load(c);
  Fma(x, y, z).Store(fma);
  Fnma(x, y, z).Store(fnma);
}

void Reduce(const float* x, float* results) {
  results[0] = ReduceAdd(Vec::Load(x));
  results[1] = ReduceMax(Vec::Load(x));
  results[2] = ReduceMin(Vec::Load(x));
}

void LoadEven(const float* x, float* y) { Vec::LoadEven(x).Store(y); }

void Integers(const int32_t* x, int32_t* results) {
  float in[Vec::kWidth], out[Vec::kWidth];
  __builtin_memcpy(in, x, sizeof(in));
  const IntVec v = Bits(Vec::Load(in));
  const IntVec all[] = {ShiftLeft<3>(v),        ShiftRight<3>(v),
                        ShiftRightSigned<3>(v), v + IntVec(INT32_MAX),
                        v - IntVec(INT32_MAX),  (v & IntVec(12)) ^ IntVec(5),
                        v | IntVec(3),          Select(v > IntVec(0), v, IntVec(-7))};
  for (const IntVec& r : all) {
    FromBits(r).Store(out);
    __builtin_memcpy(results, out, sizeof(out));
    results += Vec::kWidth;
  }
}

}  // namespace
}  // namespace oort::OORT_ISA

#define OORT_VEC_UNARY(expression) UnaryOf([](Vec a) { return expression; })
#define OORT_VEC_BINARY(expression) BinaryOf([](Vec a, Vec b) { return expression; })
#define OORT_VEC_COMPARE(expression) CompareOf([](Vec a, Vec b) { return expression; })

OORT_DEFINE_KERNELS(VecMathKernels, {.exp = Unary<Exp>,
                                     .expm1 = Unary<Expm1>,
                                     .log = Unary<Log>,
                                     .log1p = Unary<Log1p>,
                                     .tanh = Unary<Tanh>,
                                     .sigmoid = Unary<Sigmoid>,
                                     .erf = Unary<Erf>,
                                     .sin = Unary<Sin>,
                                     .cos = Unary<Cos>,
                                     .tan = Unary<Tan>,
                                     .normal_cdf = Unary<NormalCdf>,
                                     .rough_silu = Unary<RoughSilu>,
                                     .silu = Unary<Silu>})

OORT_DEFINE_KERNELS(VecOpKernels, {.width = Vec::kWidth,
                                   .abs = OORT_VEC_UNARY(Abs(a)),
                                   .negate = OORT_VEC_UNARY(-a),
                                   .sqrt = OORT_VEC_UNARY(Sqrt(a)),
                                   .floor = OORT_VEC_UNARY(Floor(a)),
                                   .ceil = OORT_VEC_UNARY(Ceil(a)),
                                   .trunc = OORT_VEC_UNARY(Trunc(a)),
                                   .round = OORT_VEC_UNARY(Round(a)),
                                   .is_nan = OORT_VEC_UNARY(Select(IsNan(a), Vec(1.0f), Vec(0.0f))),
                                   .to_int = OORT_VEC_UNARY(ToFloat(ToInt(a)) + Vec(0.0f)),
                                   .add = OORT_VEC_BINARY(a + b),
                                   .subtract = OORT_VEC_BINARY(a - b),
                                   .multiply = OORT_VEC_BINARY(a * b),
                                   .divide = OORT_VEC_BINARY(a / b),
                                   .min = OORT_VEC_BINARY(Min(a, b)),
                                   .max = OORT_VEC_BINARY(Max(a, b)),
                                   .fast_min = OORT_VEC_BINARY(FastMin(a, b)),
                                   .fast_max = OORT_VEC_BINARY(FastMax(a, b)),
                                   .copy_sign = OORT_VEC_BINARY(CopySign(a, b)),
                                   .equal = OORT_VEC_COMPARE(a == b),
                                   .not_equal = OORT_VEC_COMPARE(a != b),
                                   .less = OORT_VEC_COMPARE(a < b),
                                   .less_equal = OORT_VEC_COMPARE(a <= b),
                                   .greater = OORT_VEC_COMPARE(a > b),
                                   .greater_equal = OORT_VEC_COMPARE(a >= b),
                                   .logic = OORT_VEC_BINARY(Logic(a, b)),
                                   .bits = OORT_VEC_BINARY(Or(And(a, b), AndNot(Xor(a, b), a))),
                                   .fma = FusedMultiply,
                                   .reduce = Reduce,
                                   .load_even = LoadEven,
                                   .integers = Integers})
