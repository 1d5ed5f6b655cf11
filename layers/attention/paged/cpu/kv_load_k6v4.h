// SPDX-License-Identifier: MIT
// Elements of keys in 6 bits and values in 4. All kernels take their numbers from here, so that
// they have the same bits. Only for kv_load.h.
#pragma once

#include <cstring>

#include "cpu/vec.h"
#include "layers/attention/paged/cpu/k6v4_layout.h"
#include "layers/quantized_linear/cpu/quantized_scales.h"

namespace oort::OORT_ISA {

/// Vec::kWidth bytes, none below 0.
[[gnu::always_inline]] inline IntVec LoadBytes(const std::byte* p) {
#if defined(OORT_ISA_neon)
  return IntVec(vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(vmovl_u8(FourBytes(p))))));
#elif defined(OORT_ISA_avx512)
  return _mm512_maskz_cvtepu8_epi32(0xffff, _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
#elif defined(OORT_ISA_avx2)
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
#else
  return static_cast<int32_t>(*p);
#endif
}

/// `bits` of numbers that are not below 0, from bit `from` on.
[[gnu::always_inline]] inline IntVec BitsFrom(IntVec numbers, int from, int bits) {
#if defined(OORT_ISA_neon)
  const IntVec moved = vshlq_s32(numbers.v, vdupq_n_s32(-from));
#elif defined(OORT_ISA_avx512)
  const IntVec moved = _mm512_maskz_srl_epi32(0xffff, numbers.v, _mm_cvtsi32_si128(from));
#elif defined(OORT_ISA_avx2)
  const IntVec moved = _mm256_srl_epi32(numbers.v, _mm_cvtsi32_si128(from));
#else
  const IntVec moved = numbers.v >> from;
#endif
  return moved & IntVec((1 << bits) - 1);
}

/// Two neighbouring f16, each in all lanes.
struct TwoHalves {
  Vec first, second;
  [[gnu::always_inline]] explicit TwoHalves(const std::byte* p) {
    uint32_t both;
    std::memcpy(&both, p, sizeof(both));
#if defined(OORT_ISA_neon)
    const float32x4_t wide = vcvt_f32_f16(vreinterpret_f16_u32(vdup_n_u32(both)));
    first = vdupq_laneq_f32(wide, 0);
    second = vdupq_laneq_f32(wide, 1);
#elif defined(OORT_ISA_avx512) || defined(OORT_ISA_avx2)
    const __m128 wide = _mm_cvtph_ps(_mm_cvtsi32_si128(static_cast<int32_t>(both)));
    first = _mm_cvtss_f32(wide);
    second = _mm_cvtss_f32(_mm_movehdup_ps(wide));
#else
    first = HalfToFloat(static_cast<uint16_t>(both));
    second = HalfToFloat(static_cast<uint16_t>(both >> 16));
#endif
  }
};

/// What the keys of a block have in element d.
[[gnu::always_inline]] inline float CentreOf(const std::byte* keys, K6V4Layout at, int64_t d) {
  float scale;
  std::memcpy(&scale, keys + at.CentreScales() + 4 * (d / K6V4Layout::kGroup), 4);
  return static_cast<float>(static_cast<int8_t>(keys[at.Centres() + d])) * scale;
}

[[gnu::always_inline]] inline Vec LoadK6(const std::byte* keys, K6V4Layout at, int64_t d,
                                         int token) {
  const int element = static_cast<int>(d % 4);
  const IntVec low = BitsFrom(LoadBytes(keys + K6V4Layout::LowBits(d) + token), element % 2 * 4, 4);
  const IntVec high = BitsFrom(LoadBytes(keys + at.HighBits(d) + token), element * 2, 2);
  const Vec steps = ToFloat(low | ShiftLeft<4>(high)) - Vec(K6V4Layout::kKeyMiddle);
  const Vec scale = LoadHalf(keys + at.KeyScales(d / K6V4Layout::kGroup), token);
  return Fma(steps, scale, Vec(CentreOf(keys, at, d)));
}

[[gnu::always_inline]] inline Vec LoadV4(const std::byte* values, K6V4Layout at, int64_t token,
                                         int64_t d) {
  const IntVec steps =
      BitsFrom(LoadBytes(values + at.ValueBits(token, d)), static_cast<int>(d & 16) / 4, 4);
  const TwoHalves of_group(values + at.ValueScales(token, d / K6V4Layout::kGroup));
  return Fma(ToFloat(steps), of_group.first, of_group.second);
}

/// One of the elements behind the last whole vector.
inline float ElementOfV4(const std::byte* values, K6V4Layout at, int64_t token, int64_t d) {
  const int bits = static_cast<int>(values[at.ValueBits(token, d)]) >> ((d & 16) / 4) & 15;
  float of_group[2];
  for (int i = 0; i < 2; ++i) {
    uint16_t half;
    std::memcpy(&half, values + at.ValueScales(token, d / K6V4Layout::kGroup) + 2 * i, 2);
    of_group[i] = HalfToFloat(half);
  }
  return __builtin_fmaf(static_cast<float>(bits), of_group[0], of_group[1]);
}

}  // namespace oort::OORT_ISA
