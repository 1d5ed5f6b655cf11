// SPDX-License-Identifier: MIT
// The vector type on AVX2 with FMA: eight lanes.
#pragma once

#include <immintrin.h>

#include <cstdint>

// clang-format off: one operation a line
namespace oort::OORT_ISA {

struct Mask {
  __m256 v;
};

struct IntVec {
  __m256i v;
  IntVec() = default;
  IntVec(__m256i value) : v(value) {}                     // NOLINT: implicit on purpose
  IntVec(int32_t value) : v(_mm256_set1_epi32(value)) {}  // NOLINT: implicit on purpose
};

/// All bits set in the first n lanes.
inline __m256i FirstLanes(int n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

struct Vec {
  static constexpr int kWidth = 8;
  __m256 v;
  Vec() = default;
  Vec(__m256 value) : v(value) {}                 // NOLINT: implicit on purpose
  Vec(float value) : v(_mm256_set1_ps(value)) {}  // NOLINT: implicit on purpose
  static Vec Zero() { return _mm256_setzero_ps(); }
  static Vec Broadcast(float value) { return _mm256_set1_ps(value); }
  static Vec Load(const float* p) { return _mm256_loadu_ps(p); }
  static Vec LoadPartial(const float* p, int n) { return _mm256_maskload_ps(p, FirstLanes(n)); }
  static Vec LoadEven(const float* p) {
    const __m256 mixed = _mm256_shuffle_ps(_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8), 0x88);
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(mixed), 0xd8));
  }
  void Store(float* p) const { _mm256_storeu_ps(p, v); }
  void StorePartial(float* p, int n) const { _mm256_maskstore_ps(p, FirstLanes(n), v); }
};

inline Vec operator+(Vec a, Vec b) { return _mm256_add_ps(a.v, b.v); }
inline Vec operator-(Vec a, Vec b) { return _mm256_sub_ps(a.v, b.v); }
inline Vec operator*(Vec a, Vec b) { return _mm256_mul_ps(a.v, b.v); }
inline Vec operator/(Vec a, Vec b) { return _mm256_div_ps(a.v, b.v); }
inline Vec operator-(Vec a) { return _mm256_xor_ps(a.v, _mm256_set1_ps(-0.0f)); }
inline Mask operator==(Vec a, Vec b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_EQ_OQ)}; }
inline Mask operator!=(Vec a, Vec b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_NEQ_UQ)}; }
inline Mask operator<(Vec a, Vec b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_LT_OQ)}; }
inline Mask operator<=(Vec a, Vec b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_LE_OQ)}; }
inline Mask operator>(Vec a, Vec b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_GT_OQ)}; }
inline Mask operator>=(Vec a, Vec b) { return {_mm256_cmp_ps(a.v, b.v, _CMP_GE_OQ)}; }

inline Vec Fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a.v, b.v, c.v); }
inline Vec Fnma(Vec a, Vec b, Vec c) { return _mm256_fnmadd_ps(a.v, b.v, c.v); }
inline Vec QuickQuotient(Vec a, Vec b) { return a / b; }
inline Vec FastMin(Vec a, Vec b) { return _mm256_min_ps(a.v, b.v); }
inline Vec FastMax(Vec a, Vec b) { return _mm256_max_ps(a.v, b.v); }
// The instructions return b where either is NaN, so only a NaN in a needs care.
inline Vec Min(Vec a, Vec b) { return _mm256_blendv_ps(_mm256_min_ps(a.v, b.v), a.v, (a != a).v); }
inline Vec Max(Vec a, Vec b) { return _mm256_blendv_ps(_mm256_max_ps(a.v, b.v), a.v, (a != a).v); }
inline Vec Abs(Vec a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a.v); }
inline Vec Sqrt(Vec a) { return _mm256_sqrt_ps(a.v); }
inline Vec Floor(Vec a) { return _mm256_round_ps(a.v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
inline Vec Ceil(Vec a) { return _mm256_round_ps(a.v, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC); }
inline Vec Trunc(Vec a) { return _mm256_round_ps(a.v, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC); }
inline Vec Round(Vec a) {
  return _mm256_round_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
inline Vec Select(Mask mask, Vec a, Vec b) { return _mm256_blendv_ps(b.v, a.v, mask.v); }

inline Mask operator&(Mask a, Mask b) { return {_mm256_and_ps(a.v, b.v)}; }
inline Mask operator|(Mask a, Mask b) { return {_mm256_or_ps(a.v, b.v)}; }
inline Mask Not(Mask a) { return {_mm256_xor_ps(a.v, _mm256_castsi256_ps(_mm256_set1_epi32(-1)))}; }
inline bool Any(Mask mask) { return _mm256_movemask_ps(mask.v) != 0; }
inline bool All(Mask mask) { return _mm256_movemask_ps(mask.v) == 0xff; }
inline bool None(Mask mask) { return !Any(mask); }

inline IntVec Bits(Vec a) { return _mm256_castps_si256(a.v); }
inline Vec FromBits(IntVec a) { return _mm256_castsi256_ps(a.v); }
inline IntVec operator+(IntVec a, IntVec b) { return _mm256_add_epi32(a.v, b.v); }
inline IntVec operator-(IntVec a, IntVec b) { return _mm256_sub_epi32(a.v, b.v); }
inline IntVec operator&(IntVec a, IntVec b) { return _mm256_and_si256(a.v, b.v); }
inline IntVec operator|(IntVec a, IntVec b) { return _mm256_or_si256(a.v, b.v); }
inline IntVec operator^(IntVec a, IntVec b) { return _mm256_xor_si256(a.v, b.v); }
inline Mask operator==(IntVec a, IntVec b) {
  return {_mm256_castsi256_ps(_mm256_cmpeq_epi32(a.v, b.v))};
}
inline Mask operator>(IntVec a, IntVec b) {
  return {_mm256_castsi256_ps(_mm256_cmpgt_epi32(a.v, b.v))};
}
inline IntVec Select(Mask mask, IntVec a, IntVec b) {
  return Bits(Select(mask, FromBits(a), FromBits(b)));
}
template <int n>
inline IntVec ShiftLeft(IntVec a) {
  return _mm256_slli_epi32(a.v, n);
}
template <int n>
inline IntVec ShiftRight(IntVec a) {
  return _mm256_srli_epi32(a.v, n);
}
template <int n>
inline IntVec ShiftRightSigned(IntVec a) {
  return _mm256_srai_epi32(a.v, n);
}

inline Vec And(Vec a, Vec b) { return _mm256_and_ps(a.v, b.v); }
inline Vec Or(Vec a, Vec b) { return _mm256_or_ps(a.v, b.v); }
inline Vec Xor(Vec a, Vec b) { return _mm256_xor_ps(a.v, b.v); }
inline Vec AndNot(Vec a, Vec b) { return _mm256_andnot_ps(b.v, a.v); }

inline IntVec ToInt(Vec a) { return _mm256_cvtps_epi32(a.v); }
inline Vec ToFloat(IntVec a) { return _mm256_cvtepi32_ps(a.v); }

/// Folds eight lanes with a commutative operation.
template <typename Op>
inline float Fold(Vec a, Op op) {
  a = op(a, Vec(_mm256_permute2f128_ps(a.v, a.v, 1)));
  a = op(a, Vec(_mm256_permute_ps(a.v, 0x4e)));
  a = op(a, Vec(_mm256_permute_ps(a.v, 0xb1)));
  return _mm256_cvtss_f32(a.v);
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
