// SPDX-License-Identifier: MIT
// The vector type that kernels are written over. Include it only from *.simd.cpp files: each
// instruction set gets its own Vec in its own namespace.
//
//   Vec      f32 lanes; a float converts to it by broadcast, so `Fma(x, y, 0.5f)` works
//   IntVec   i32 lanes of the same number, wrapping arithmetic
//   Mask     one truth value a lane, from comparisons
//
// Vec:  kWidth, Load(p), LoadPartial(p, n) (other lanes 0), Store(p), StorePartial(p, n) with
//       0 <= n <= kWidth and any alignment; LoadEven(p) takes p[0], p[2], … and may read all of
//       p[0 .. 2 kWidth); + - * / and unary -; == != < <= > >= give a Mask.
// Free: Fma(a,b,c) = a*b+c, Fnma = c-a*b (fused where the processor can), Min/Max (NaN wins, as in
//       torch), FastMin/FastMax (b if either is NaN; in one instruction), Abs, Sqrt, Floor, Ceil,
//       Trunc, Round (half to even), CopySign(magnitude, sign), IsNan(a), Select(mask, a, b),
//       And/Or/Xor/AndNot(a, b) = a & ~b of the bits, Bits(Vec) and FromBits(IntVec),
//       ToInt (rounds to nearest even; the value must fit), ToFloat, ShiftLeft<n>, ShiftRight<n>
//       (zeros come in), ShiftRightSigned<n>, Any/All/None(mask), mask & mask, |, Not(mask),
//       ReduceAdd, ReduceMax, ReduceMin (NaN wins).
#pragma once

#include <cstdint>

#if defined(OORT_ISA_neon)
#include "cpu/vec_neon.h"
#elif defined(OORT_ISA_avx512)
#include "cpu/vec_avx512.h"
#elif defined(OORT_ISA_avx2)
#include "cpu/vec_avx2.h"
#elif defined(OORT_ISA_scalar)
#include "cpu/vec_scalar.h"
#else
#error "cpu/vec.h is for *.simd.cpp files, which are compiled once for each instruction set"
#endif

namespace oort::OORT_ISA {

inline Mask IsNan(Vec a) { return a != a; }

inline Vec CopySign(Vec magnitude, Vec sign) {
  const Vec bit = FromBits(IntVec(INT32_MIN));
  return Or(AndNot(magnitude, bit), And(sign, bit));
}

/// Applies op to x[i] for all i and writes y[i]; x and y may be the same array.
template <typename Op>
inline void MapVec(const float* x, float* y, int64_t count, Op op) {
  int64_t i = 0;
  for (; i + Vec::kWidth <= count; i += Vec::kWidth) op(Vec::Load(x + i)).Store(y + i);
  if (i < count) {
    const int rest = static_cast<int>(count - i);
    op(Vec::LoadPartial(x + i, rest)).StorePartial(y + i, rest);
  }
}

/// The same with two operands.
template <typename Op>
inline void MapVec(const float* a, const float* b, float* y, int64_t count, Op op) {
  int64_t i = 0;
  for (; i + Vec::kWidth <= count; i += Vec::kWidth) {
    op(Vec::Load(a + i), Vec::Load(b + i)).Store(y + i);
  }
  if (i < count) {
    const int rest = static_cast<int>(count - i);
    op(Vec::LoadPartial(a + i, rest), Vec::LoadPartial(b + i, rest)).StorePartial(y + i, rest);
  }
}

}  // namespace oort::OORT_ISA
