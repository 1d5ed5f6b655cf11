// SPDX-License-Identifier: MIT
// Elementary functions over Vec. Include it only from *.simd.cpp files.
//
// Largest errors, measured in test/cpu/vec_math_test.cpp against double, in units in the last
// place: Exp 1.5, Expm1 2, Log 1.5, Log1p 2, Tanh 3, Sigmoid 2.5, Erf 2, Sin 2.5, Cos 2.5, Tan 4.
// NaN gives NaN; infinities, overflow, subnormal numbers and zeros behave as in torch.
// Polynomials are minimax fits of this project; nothing relies on multiply-add being fused.
#pragma once

#include "cpu/unroll.h"
#include "cpu/vec.h"

namespace oort::OORT_ISA {

/// 2^k for -127 < k < 128.
inline Vec PowerOfTwo(IntVec k) { return FromBits(ShiftLeft<23>(k + IntVec(127))); }

/// x = n ln 2 + r with |r| <= ln 2 / 2, for |x| < 2^20: the reduction of Cody and Waite (1980).
struct ExpParts {
  IntVec n;
  Vec r;
};
inline ExpParts SplitExp(Vec x) {
  // Adding 1.5 * 2^23 leaves round(x / ln 2) in the low bits: cheaper than a conversion.
  const Vec magic = 12582912.0f;
  const Vec shifted = Fma(x, 1.44269504f, magic);
  const Vec n = shifted - magic;
  // ln 2 in two parts, the first so short that its product with n is exact.
  const Vec r = Fnma(n, -0.00021219444f, Fnma(n, 0.693359375f, x));
  return {Bits(shifted) - Bits(magic), r};
}

/// exp(r) for |r| <= ln 2 / 2
inline Vec ExpNearZero(Vec r) {
  Vec q = Fma(r, 0.00138131448f, 0.00836941879f);
  q = Fma(q, r, 0.041668456f);
  q = Fma(q, r, 0.166665152f);
  q = Fma(q, r, 0.49999994f);
  return Fma(r * r, q, r) + 1.0f;
}

inline Vec Exp(Vec x) {
  // Beyond these the result is 0 or infinity anyway. The order keeps NaN.
  const ExpParts s = SplitExp(FastMax(-104.0f, FastMin(89.0f, x)));
  const Vec e = ExpNearZero(s.r);
  // In two steps, because 2^n itself may be infinite or subnormal.
  const IntVec half = ShiftRightSigned<1>(s.n);
  return e * PowerOfTwo(half) * PowerOfTwo(s.n - half);
}

inline Vec Expm1(Vec x) {
  const ExpParts s = SplitExp(FastMax(-20.0f, FastMin(89.0f, x)));
  Vec q = Fma(s.r, 0.000198459587f, 0.00139416521f);
  q = Fma(q, s.r, 0.00833339151f);
  q = Fma(q, s.r, 0.0416663475f);
  q = Fma(q, s.r, 0.166666657f);
  q = Fma(q, s.r, 0.5f);
  const Vec e = Fma(s.r * s.r, q, s.r);
  // Half of 2^n, which is finite also where n is 128.
  const Vec scale = PowerOfTwo(s.n - IntVec(1));
  const Vec y = Fma(scale, e, scale - 0.5f);
  return Select(Abs(x) < 1e-10f, x, y + y);
}

/// log(1 + f) for 1 + f in [sqrt(1/2), sqrt(2)], plus e ln 2.
inline Vec LogOfParts(Vec f, Vec e) {
  Vec p = Fma(f, 0.0674663857f, -0.116756514f);
  p = Fma(p, f, 0.118881628f);
  p = Fma(p, f, -0.124055892f);
  p = Fma(p, f, 0.142195523f);
  p = Fma(p, f, -0.166679963f);
  p = Fma(p, f, 0.200021192f);
  p = Fma(p, f, -0.250000089f);
  p = Fma(p, f, 0.333333135f);
  const Vec f2 = f * f;
  const Vec tail = Fma(e, -0.00021219444f, Fma(f2 * f, p, f2 * -0.5f));
  return Fma(e, 0.693359375f, f + tail);
}

/// m in [sqrt(1/2), sqrt(2)) and e with x = m 2^e, for normal positive x.
struct LogParts {
  Vec m;
  Vec e;
};
inline LogParts SplitLog(Vec x) {
  const IntVec root_half = 0x3f3504f3;
  const IntVec e = ShiftRightSigned<23>(Bits(x) - root_half);
  return {FromBits(Bits(x) - ShiftLeft<23>(e)), ToFloat(e)};
}

/// What log gives for 0, negative numbers, infinity and NaN; y for all others.
inline Vec LogSpecial(Vec x, Vec y) {
  const Vec infinity = __builtin_inff();
  y = Select(x < infinity, y, x);
  y = Select(x == 0.0f, -infinity, y);
  return Select(x < 0.0f, __builtin_nanf(""), y);
}

inline Vec Log(Vec x) {
  const Mask tiny = x < 1.17549435e-38f;
  const LogParts s = SplitLog(Select(tiny, x * 8388608.0f, x));
  return LogSpecial(x, LogOfParts(s.m - 1.0f, s.e - Select(tiny, Vec(23.0f), Vec::Zero())));
}

inline Vec Log1p(Vec x) {
  const Vec u = x + 1.0f;
  const LogParts s = SplitLog(u);
  // Near 0 the argument is x itself. Elsewhere the rounding error of u is added back.
  const Mask near = s.e == 0.0f;
  const Vec lost = Select(x > 1.0f, 1.0f - (u - x), x - (u - 1.0f));
  const Vec y = LogOfParts(Select(near, x, s.m - 1.0f), s.e);
  const Vec whole = LogSpecial(u, Select(near, y, y + lost / u));
  return Select(Abs(x) < 1e-10f, x, whole);
}

inline Vec Tanh(Vec x) {
  const Vec t = Expm1(FastMin(20.0f, Abs(x) * 2.0f));
  return CopySign(t / (t + 2.0f), x);
}

inline Vec Sigmoid(Vec x) {
  // 0.5 / (0.5 + e) with e = exp(-x) / 2, so that 2^(n-1) is finite as long as exp(-x) is; from
  // n = 129 on it is infinite, and the result 0 like torch's. The order keeps NaN.
  const Vec t = FastMax(-89.2f, FastMin(87.0f, x));
  // As in SplitExp, with what makes n - 1 an exponent added at once; s is -r.
  const Vec magic = 12582912.0f + 126.0f;
  const Vec shifted = Fma(t, -1.44269504f, magic);
  const Vec n = shifted - magic;
  const Vec s = Fma(n, -0.00021219444f, Fma(n, 0.693359375f, t));
  const Vec scale = FromBits(ShiftLeft<23>(Bits(shifted)));
  // exp(r) as in ExpNearZero, by pairs: the chain of dependent steps is what takes the time.
  const Vec s2 = s * s;
  const Vec low = Fma(s, -0.166665152f, 0.49999994f);
  const Vec high = Fma(s2, 0.00138131448f, Fma(s, -0.00836941879f, 0.041668456f));
  const Vec e = Fma(s2, Fma(high, s2, low), -s) + 1.0f;
  return Vec(0.5f) / Fma(e, scale, 0.5f);
}

/// x sigmoid(x) to 4e-7 of it; below x = -87.3, where it is less than 2e-36, it may be 0. One
/// quotient, and as few steps as there can be: networks spend much of their time here.
inline Vec Silu(Vec x) {
  // The least gives 2^128, which is infinite, and the result 0. The order keeps NaN.
  const Vec t = FastMax(-88.72f, FastMin(87.0f, x));
  const Vec magic = 12582912.0f + 127.0f;
  const Vec shifted = Fma(t, -1.44269504f, magic);
  const Vec n = shifted - magic;
#if defined(OORT_ISA_neon) || defined(OORT_ISA_avx2) || defined(OORT_ISA_avx512)
  const Vec s = Fma(n, 0.693147182f, t);  // fused: the product is exact
#else
  const Vec s = Fma(n, -0.00021219444f, Fma(n, 0.693359375f, t));
#endif
  const Vec scale = FromBits(ShiftLeft<23>(Bits(shifted)));
  const Vec s2 = s * s;  // the rest as in Sigmoid
  const Vec low = Fma(s, -0.166665152f, 0.49999994f);
  const Vec high = Fma(s2, 0.00138131448f, Fma(s, -0.00836941879f, 0.041668456f));
  const Vec e = Fma(s2, Fma(high, s2, low), Vec(1.0f) - s);
  return QuickQuotient(x, Fma(e, scale, 1.0f));
}

/// x sigmoid(x) to 1e-4 of it, for results that are rounded to fewer digits anyway.
inline Vec RoughSilu(Vec x) {
  // The least gives 2^128, which is infinite, and the result 0. The order keeps NaN.
  const Vec t = FastMax(-88.72f, FastMin(87.0f, x));
  const Vec magic = 12582912.0f + 127.0f;
  const Vec shifted = Fma(t, -1.44269504f, magic);
  const Vec r = Fma(t, -1.44269504f, magic - shifted);
  const Vec scale = FromBits(ShiftLeft<23>(Bits(shifted)));
  const Vec r2 = r * r;
  const Vec e = Fma(Fma(r, 0.0551712587f, 0.242611066f), r2, Fma(r, 0.693261027f, 0.999928057f));
  return QuickQuotient(x, Fma(e, scale, 1.0f));
}

inline Vec Erf(Vec x) {
  const Vec t = FastMin(4.0f, Abs(x));
  const Vec z = t * t;
  Vec p = Fma(z, 8.31677535e-05f, -0.000813001243f);
  p = Fma(p, z, 0.00519990688f);
  p = Fma(p, z, -0.0268589407f);
  p = Fma(p, z, 0.112836875f);
  p = Fma(p, z, -0.376126319f);
  p = Fma(p, z, 0.128379166f);
  const Vec near = Fma(p, t, t);
  // log(erfc(t)), because 1 - exp of it needs few digits.
  Vec q = Fma(t, -2.10949693e-05f, 0.000434461748f);
  q = Fma(q, t, -0.004171059f);
  q = Fma(q, t, 0.0251194183f);
  q = Fma(q, t, -0.108280078f);
  q = Fma(q, t, -0.633346915f);
  q = Fma(q, t, -1.12951493f);
  q = Fma(q, t, 0.000174683286f);
  const ExpParts s = SplitExp(q);  // -16 < q <= 0: nothing can overflow
  const Vec far = Fnma(ExpNearZero(s.r), PowerOfTwo(s.n), 1.0f);
  return CopySign(Select(t < 0.925f, near, far), x);
}

/// Half of erfc(-x / sqrt(2)), the normal distribution: to 3 units for x > -1, to 1e-4 of it down
/// to x = -4; from -14 on it is 0. Of several vectors in step: the formula is a long chain of
/// steps that wait for each other, and processors do not look far enough ahead to begin the next.
template <int count>
[[gnu::always_inline]] inline void NormalCdfs(Vec (&x)[count]) {
  Vec a[count], q[count], e[count];
  Unroll<count>([&](auto i) { a[i] = FastMin(14.0f, Abs(x[i])); });
  // log(erfc(a / sqrt(2))), because few digits of exp of it are needed.
  Unroll<count>([&](auto i) { q[i] = Fma(a[i], -1.23788379e-06f, 1.86450725e-05f); });
  const auto step = [&](float coefficient) {
    Unroll<count>([&](auto i) { q[i] = Fma(q[i], a[i], coefficient); });
  };
  step(-8.82133827e-05f);
  step(-0.000193000669f);
  step(0.00502351066f);
  step(-0.0364755467f);
  step(-0.318269789f);
  step(-0.797888875f);
  step(7.25509324e-08f);
  Unroll<count>([&](auto i) { q[i] = FastMax(-87.3f, q[i]); });
  // As in Sigmoid: half of 2^n, which for the least q is 0.
  const Vec magic = 12582912.0f + 126.0f;
  Unroll<count>([&](auto i) { a[i] = Fma(q[i], 1.44269504f, magic); });
  Unroll<count>([&](auto i) { e[i] = Fnma(a[i] - magic, 0.693147181f, q[i]); });
  Unroll<count>([&](auto i) {
    const Vec tail = ExpNearZero(e[i]) * FromBits(ShiftLeft<23>(Bits(a[i])));
    x[i] = Select(x[i] < 0.0f, tail, 1.0f - tail);
  });
}

inline Vec NormalCdf(Vec x) {
  Vec one[1] = {x};
  NormalCdfs(one);
  return one[0];
}

/// x = quadrant pi/2 + r with |r| <= pi/4, for |x| <= kTrigLimit (Cody and Waite 1980).
struct TrigParts {
  IntVec quadrant;
  Vec sin;  ///< of r
  Vec cos;
};
inline constexpr float kTrigLimit = 8192.0f;

inline TrigParts SplitTrig(Vec x) {
  const Vec magic = 12582912.0f;
  const Vec shifted = Fma(x, 0.636619772f, magic);
  const Vec n = shifted - magic;
  // pi/2 in four parts; the products with the first three are exact.
  Vec r = Fnma(n, 1.5703125f, x);
  r = Fnma(n, 0.00048398971557617188f, r);
  r = Fnma(n, -1.6298145055770874e-07f, r);
  r = Fnma(n, 6.0771006282767104e-11f, r);
  const Vec z = r * r;
  const Vec s =
      Fma(Fma(Fma(z, 2.71736667e-06f, -0.000198392328f), z, 0.00833332911f), z, -0.166666672f);
  const Vec c = Fma(Fma(z, 2.44256807e-05f, -0.00138872513f), z, 0.0416666456f);
  return {Bits(shifted), Fma(r * z, s, r), Fma(z * z, c, Fma(z, -0.5f, 1.0f))};
}

/// Large arguments need many digits of pi; they are rare, so the C library does them.
template <typename Function>
inline Vec LaneByLane(Vec x, Function function) {
  float lanes[Vec::kWidth];
  x.Store(lanes);
  for (float& lane : lanes) lane = function(lane);
  return Vec::Load(lanes);
}

inline Vec FlipSign(Vec x, IntVec bit1) {
  return Xor(x, FromBits(ShiftLeft<30>(bit1 & IntVec(2))));
}

inline Vec Sin(Vec x) {
  if (!All(Abs(x) <= kTrigLimit)) {
    return LaneByLane(x, [](float v) { return __builtin_sinf(v); });
  }
  const TrigParts s = SplitTrig(x);
  const Mask odd = (s.quadrant & IntVec(1)) == IntVec(1);
  return Select(x == 0.0f, x, FlipSign(Select(odd, s.cos, s.sin), s.quadrant));
}

inline Vec Cos(Vec x) {
  if (!All(Abs(x) <= kTrigLimit)) {
    return LaneByLane(x, [](float v) { return __builtin_cosf(v); });
  }
  const TrigParts s = SplitTrig(x);
  const Mask odd = (s.quadrant & IntVec(1)) == IntVec(1);
  return FlipSign(Select(odd, s.sin, s.cos), s.quadrant + IntVec(1));
}

inline Vec Tan(Vec x) {
  if (!All(Abs(x) <= kTrigLimit)) {
    return LaneByLane(x, [](float v) { return __builtin_tanf(v); });
  }
  const TrigParts s = SplitTrig(x);
  const Mask odd = (s.quadrant & IntVec(1)) == IntVec(1);
  const Vec tan = Select(odd, -s.cos, s.sin) / Select(odd, s.sin, s.cos);
  return Select(x == 0.0f, x, tan);
}

}  // namespace oort::OORT_ISA
