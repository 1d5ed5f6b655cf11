// SPDX-License-Identifier: MIT
// 32 lanes of f16 on AVX512-FP16. Through cpu/vec_f16.h only.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "cpu/vec.h"
#include "oort/dtype.h"

// clang-format off: one operation a line
namespace oort::OORT_ISA {

inline __mmask32 FirstHalfLanes(int n) { return static_cast<__mmask32>((uint64_t{1} << n) - 1u); }

struct HalfVec {
  static constexpr int kWidth = 32;
  __m512h v;
  HalfVec() = default;
  HalfVec(__m512h value) : v(value) {}  // NOLINT: implicit on purpose
  HalfVec(float value) : v(_mm512_set1_ph(static_cast<_Float16>(value))) {}  // NOLINT: likewise
  static HalfVec Zero() { return _mm512_setzero_ph(); }
  static HalfVec Broadcast(Half value) {
    return _mm512_castsi512_ph(_mm512_set1_epi16(static_cast<int16_t>(value.bits)));
  }
  static HalfVec Load(const Half* p) { return _mm512_loadu_ph(p); }
  static HalfVec LoadPartial(const Half* p, int n) {
    return _mm512_castsi512_ph(_mm512_maskz_loadu_epi16(FirstHalfLanes(n), p));
  }
  void Store(Half* p) const { _mm512_storeu_ph(p, v); }
  void StorePartial(Half* p, int n) const {
    _mm512_mask_storeu_epi16(p, FirstHalfLanes(n), _mm512_castph_si512(v));
  }
};

inline HalfVec operator+(HalfVec a, HalfVec b) { return _mm512_add_ph(a.v, b.v); }
inline HalfVec operator-(HalfVec a, HalfVec b) { return _mm512_sub_ph(a.v, b.v); }
inline HalfVec operator*(HalfVec a, HalfVec b) { return _mm512_mul_ph(a.v, b.v); }
inline HalfVec operator/(HalfVec a, HalfVec b) { return _mm512_div_ph(a.v, b.v); }
inline HalfVec Fma(HalfVec a, HalfVec b, HalfVec c) { return _mm512_fmadd_ph(a.v, b.v, c.v); }
inline HalfVec Fnma(HalfVec a, HalfVec b, HalfVec c) { return _mm512_fnmadd_ph(a.v, b.v, c.v); }
// The instructions return b where either is NaN, so only a NaN in a needs care.
inline HalfVec Min(HalfVec a, HalfVec b) {
  return _mm512_mask_blend_ph(_mm512_cmp_ph_mask(a.v, a.v, _CMP_UNORD_Q), _mm512_min_ph(a.v, b.v),
                              a.v);
}
inline HalfVec Max(HalfVec a, HalfVec b) {
  return _mm512_mask_blend_ph(_mm512_cmp_ph_mask(a.v, a.v, _CMP_UNORD_Q), _mm512_max_ph(a.v, b.v),
                              a.v);
}
inline HalfVec AtLeast(HalfVec x, HalfVec low) { return _mm512_max_ph(low.v, x.v); }
inline HalfVec AtMost(HalfVec x, HalfVec high) { return _mm512_min_ph(high.v, x.v); }
/// 1 / x to ten bits.
inline HalfVec QuickInverse(HalfVec x) { return _mm512_rcp_ph(x.v); }
/// x * 2^n, where n is in the last bits of `power`, a number of 1024 to 2047.
inline HalfVec TimesPower(HalfVec x, HalfVec power) {
  const __m512i exponent = _mm512_slli_epi16(_mm512_castph_si512(power.v), 10);
  return _mm512_castsi512_ph(_mm512_add_epi16(_mm512_castph_si512(x.v), exponent));
}

/// Where StoreInterleaved takes lane i of its vector `part`: a 32 stands before what comes of b.
struct ThreeInTurns {
  alignas(64) uint16_t first[3][32], third[3][32];
  uint32_t is_third[3];
  constexpr ThreeInTurns() : first(), third(), is_third() {
    for (int i = 0; i < 96; ++i) {
      const int part = i / 32, lane = i % 32, from = i % 3;
      first[part][lane] = static_cast<uint16_t>(i / 3 + (from == 1 ? 32 : 0));
      third[part][lane] = static_cast<uint16_t>(i / 3);
      if (from == 2) is_third[part] |= uint32_t{1} << lane;
    }
  }
};

/// The lanes of all three in turns.
inline void StoreInterleaved(HalfVec a, HalfVec b, HalfVec c, Half* p) {
  static constexpr ThreeInTurns kTurns;
  for (int part = 0; part < 3; ++part) {
    const __m512i two = _mm512_permutex2var_epi16(
        _mm512_castph_si512(a.v), _mm512_load_si512(kTurns.first[part]), _mm512_castph_si512(b.v));
    const __m512i all = _mm512_mask_permutexvar_epi16(two, kTurns.is_third[part],
                                                      _mm512_load_si512(kTurns.third[part]),
                                                      _mm512_castph_si512(c.v));
    _mm512_storeu_si512(p + 32 * part, all);
  }
}

/// The lower and the upper sixteen lanes in f32, and back.
inline Vec Low(HalfVec a) { return _mm512_cvtxph_ps(_mm512_castph512_ph256(a.v)); }
inline Vec High(HalfVec a) {
  return _mm512_cvtxph_ps(
      _mm256_castsi256_ph(_mm512_extracti64x4_epi64(_mm512_castph_si512(a.v), 1)));
}
inline HalfVec Narrow(Vec low, Vec high) {
  const __m512i lower = _mm512_castsi256_si512(_mm256_castph_si256(_mm512_cvtxps_ph(low.v)));
  return _mm512_castsi512_ph(
      _mm512_inserti64x4(lower, _mm256_castph_si256(_mm512_cvtxps_ph(high.v)), 1));
}

}  // namespace oort::OORT_ISA
