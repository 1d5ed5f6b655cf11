// SPDX-License-Identifier: MIT
// The vector type on AVX-512 (F, BW, DQ, VL): sixteen lanes.
#pragma once

#include <immintrin.h>

#include <cstdint>

// clang-format off: one operation a line
namespace oort::OORT_ISA {

struct Mask {
  __mmask16 v;
};

struct IntVec {
  __m512i v;
  IntVec() = default;
  IntVec(__m512i value) : v(value) {}                     // NOLINT: implicit on purpose
  IntVec(int32_t value) : v(_mm512_set1_epi32(value)) {}  // NOLINT: implicit on purpose
};

inline __mmask16 FirstLanes(int n) { return static_cast<__mmask16>((1u << n) - 1u); }

struct Vec {
  static constexpr int kWidth = 16;
  __m512 v;
  Vec() = default;
  Vec(__m512 value) : v(value) {}                 // NOLINT: implicit on purpose
  Vec(float value) : v(_mm512_set1_ps(value)) {}  // NOLINT: implicit on purpose
  static Vec Zero() { return _mm512_setzero_ps(); }
  static Vec Broadcast(float value) { return _mm512_set1_ps(value); }
  static Vec Load(const float* p) { return _mm512_loadu_ps(p); }
  static Vec LoadPartial(const float* p, int n) { return _mm512_maskz_loadu_ps(FirstLanes(n), p); }
  static Vec LoadEven(const float* p) {
    const __m512i even =
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    return _mm512_permutex2var_ps(_mm512_loadu_ps(p), even, _mm512_loadu_ps(p + 16));
  }
  void Store(float* p) const { _mm512_storeu_ps(p, v); }
  void StorePartial(float* p, int n) const { _mm512_mask_storeu_ps(p, FirstLanes(n), v); }
};

inline Vec operator+(Vec a, Vec b) { return _mm512_add_ps(a.v, b.v); }
inline Vec operator-(Vec a, Vec b) { return _mm512_sub_ps(a.v, b.v); }
inline Vec operator*(Vec a, Vec b) { return _mm512_mul_ps(a.v, b.v); }
inline Vec operator/(Vec a, Vec b) { return _mm512_div_ps(a.v, b.v); }
inline Vec operator-(Vec a) { return _mm512_xor_ps(a.v, _mm512_set1_ps(-0.0f)); }
inline Mask operator==(Vec a, Vec b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ)}; }
inline Mask operator!=(Vec a, Vec b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_NEQ_UQ)}; }
inline Mask operator<(Vec a, Vec b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
inline Mask operator<=(Vec a, Vec b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LE_OQ)}; }
inline Mask operator>(Vec a, Vec b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_GT_OQ)}; }
inline Mask operator>=(Vec a, Vec b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_GE_OQ)}; }

inline Vec Fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a.v, b.v, c.v); }
inline Vec Fnma(Vec a, Vec b, Vec c) { return _mm512_fnmadd_ps(a.v, b.v, c.v); }
/// a / b to one or two units in the last place for 1 <= b <= 2^126, and a * 0 for larger b. It is a
/// Newton-Raphson step, because a division takes 16 cycles.
inline Vec QuickQuotient(Vec a, Vec b) {
  const __mmask16 normal = _mm512_cmp_ps_mask(b.v, _mm512_set1_ps(0x1p126f), _CMP_LE_OQ);
  const __m512 near = _mm512_maskz_rcp14_ps(normal, b.v);
  const __m512 finite = _mm512_min_ps(b.v, _mm512_set1_ps(0x1p126f));
  const __m512 rest = _mm512_fnmadd_ps(finite, near, _mm512_set1_ps(1.0f));
  return _mm512_mul_ps(a.v, _mm512_fmadd_ps(near, rest, near));
}
inline Vec FastMin(Vec a, Vec b) { return _mm512_min_ps(a.v, b.v); }
inline Vec FastMax(Vec a, Vec b) { return _mm512_max_ps(a.v, b.v); }
// The instructions return b where either is NaN, so only a NaN in a needs care.
inline Vec Min(Vec a, Vec b) {
  return _mm512_mask_mov_ps(_mm512_min_ps(a.v, b.v), (a != a).v, a.v);
}
inline Vec Max(Vec a, Vec b) {
  return _mm512_mask_mov_ps(_mm512_max_ps(a.v, b.v), (a != a).v, a.v);
}
inline Vec Abs(Vec a) { return _mm512_abs_ps(a.v); }
inline Vec Sqrt(Vec a) { return _mm512_sqrt_ps(a.v); }
inline Vec Floor(Vec a) {
  return _mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}
inline Vec Ceil(Vec a) {
  return _mm512_roundscale_ps(a.v, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC);
}
inline Vec Trunc(Vec a) {
  return _mm512_roundscale_ps(a.v, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
}
inline Vec Round(Vec a) {
  return _mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
inline Vec Select(Mask mask, Vec a, Vec b) { return _mm512_mask_blend_ps(mask.v, b.v, a.v); }
inline IntVec Select(Mask mask, IntVec a, IntVec b) {
  return _mm512_mask_blend_epi32(mask.v, b.v, a.v);
}

inline Mask operator&(Mask a, Mask b) { return {static_cast<__mmask16>(a.v & b.v)}; }
inline Mask operator|(Mask a, Mask b) { return {static_cast<__mmask16>(a.v | b.v)}; }
inline Mask Not(Mask a) { return {static_cast<__mmask16>(~a.v)}; }
inline bool Any(Mask mask) { return mask.v != 0; }
inline bool All(Mask mask) { return mask.v == 0xffff; }
inline bool None(Mask mask) { return mask.v == 0; }

inline IntVec Bits(Vec a) { return _mm512_castps_si512(a.v); }
inline Vec FromBits(IntVec a) { return _mm512_castsi512_ps(a.v); }
inline IntVec operator+(IntVec a, IntVec b) { return _mm512_add_epi32(a.v, b.v); }
inline IntVec operator-(IntVec a, IntVec b) { return _mm512_sub_epi32(a.v, b.v); }
inline IntVec operator&(IntVec a, IntVec b) { return _mm512_and_si512(a.v, b.v); }
inline IntVec operator|(IntVec a, IntVec b) { return _mm512_or_si512(a.v, b.v); }
inline IntVec operator^(IntVec a, IntVec b) { return _mm512_xor_si512(a.v, b.v); }
inline Mask operator==(IntVec a, IntVec b) { return {_mm512_cmpeq_epi32_mask(a.v, b.v)}; }
inline Mask operator>(IntVec a, IntVec b) { return {_mm512_cmpgt_epi32_mask(a.v, b.v)}; }
template <int n>
inline IntVec ShiftLeft(IntVec a) {
  return _mm512_slli_epi32(a.v, n);
}
template <int n>
inline IntVec ShiftRight(IntVec a) {
  return _mm512_srli_epi32(a.v, n);
}
template <int n>
inline IntVec ShiftRightSigned(IntVec a) {
  return _mm512_srai_epi32(a.v, n);
}

inline Vec And(Vec a, Vec b) { return _mm512_and_ps(a.v, b.v); }
inline Vec Or(Vec a, Vec b) { return _mm512_or_ps(a.v, b.v); }
inline Vec Xor(Vec a, Vec b) { return _mm512_xor_ps(a.v, b.v); }
inline Vec AndNot(Vec a, Vec b) { return _mm512_andnot_ps(b.v, a.v); }

inline IntVec ToInt(Vec a) { return _mm512_cvtps_epi32(a.v); }
inline Vec ToFloat(IntVec a) { return _mm512_cvtepi32_ps(a.v); }

/// Folds sixteen lanes with a commutative operation.
template <typename Op>
inline float Fold(Vec a, Op op) {
  a = op(a, Vec(_mm512_shuffle_f32x4(a.v, a.v, 0x4e)));
  a = op(a, Vec(_mm512_shuffle_f32x4(a.v, a.v, 0xb1)));
  a = op(a, Vec(_mm512_permute_ps(a.v, 0x4e)));
  a = op(a, Vec(_mm512_permute_ps(a.v, 0xb1)));
  return _mm512_cvtss_f32(a.v);
}
inline float ReduceAdd(Vec a) {
  return Fold(a, [](Vec x, Vec y) { return x + y; });
}
inline float ReduceMax(Vec a) {
  return Fold(a, [](Vec x, Vec y) { return Max(x, y); });
}
inline float ReduceMin(Vec a) {
  return Fold(a, [](Vec x, Vec y) { return Min(x, y); });
}

}  // namespace oort::OORT_ISA
