// SPDX-License-Identifier: MIT
// Loads of numbers in 8 to 32 bits. Only for *.simd.cpp and *.dot.cpp.
#pragma once

#include <cstddef>
#include <cstring>

#include "cpu/vec.h"
#include "oort/dtype.h"

namespace oort::OORT_ISA {

/// Vec::kWidth numbers from element `index` on.
inline Vec LoadHalf(const std::byte* p, int index) {
  const std::byte* from = p + 2 * index;
#if defined(OORT_ISA_neon)
  return Vec(vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(reinterpret_cast<const uint8_t*>(from)))));
#elif defined(OORT_ISA_avx512)
  // The masked form is used because GCC 12 warns that the plain one is uninitialized.
  return Vec(
      _mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))));
#elif defined(OORT_ISA_avx2)
  return Vec(_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
#else
  uint16_t nibbles[Vec::kWidth];
  std::memcpy(nibbles, from, sizeof(nibbles));
  float floats[Vec::kWidth];
  for (int i = 0; i < Vec::kWidth; ++i) floats[i] = HalfToFloat(nibbles[i]);
  return Vec::Load(floats);
#endif
}

inline Vec LoadBf16At(const std::byte* p, int index) {
  const std::byte* from = p + 2 * index;
#if defined(OORT_ISA_neon)
  const uint16x4_t nibbles = vreinterpret_u16_u8(vld1_u8(reinterpret_cast<const uint8_t*>(from)));
  return Vec(vreinterpretq_f32_u32(vshll_n_u16(nibbles, 16)));
#elif defined(OORT_ISA_avx512)
  const __m256i nibbles = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  return Vec(_mm512_castsi512_ps(
      _mm512_maskz_slli_epi32(0xffff, _mm512_maskz_cvtepu16_epi32(0xffff, nibbles), 16)));
#elif defined(OORT_ISA_avx2)
  const __m128i nibbles = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return Vec(_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(nibbles), 16)));
#else
  uint16_t nibbles[Vec::kWidth];
  std::memcpy(nibbles, from, sizeof(nibbles));
  float floats[Vec::kWidth];
  for (int i = 0; i < Vec::kWidth; ++i) {
    floats[i] = __builtin_bit_cast(float, static_cast<uint32_t>(nibbles[i]) << 16);
  }
  return Vec::Load(floats);
#endif
}

inline Vec LoadFloat(const std::byte* p, int index) {
  float floats[Vec::kWidth];
  std::memcpy(floats, p + 4 * index, sizeof(floats));
  return Vec::Load(floats);
}

#if defined(OORT_ISA_neon)
inline uint8x8_t FourBytes(const std::byte* from) {
  uint32_t four;
  std::memcpy(&four, from, sizeof(four));
  return vreinterpret_u8_u32(vdup_n_u32(four));
}
#endif

/// Bytes, 0 to 255.
inline Vec LoadByte(const std::byte* p, int index) {
  const std::byte* from = p + index;
#if defined(OORT_ISA_avx512)
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return Vec(_mm512_maskz_cvtepi32_ps(0xffff, _mm512_maskz_cvtepu8_epi32(0xffff, bytes)));
#elif defined(OORT_ISA_avx2)
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
  return Vec(_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes)));
#elif defined(OORT_ISA_neon)
  return Vec(vcvtq_f32_u32(vmovl_u16(vget_low_u16(vmovl_u8(FourBytes(from))))));
#else
  float floats[Vec::kWidth];
  for (int i = 0; i < Vec::kWidth; ++i) floats[i] = static_cast<float>(from[i]);
  return Vec::Load(floats);
#endif
}

/// Bytes, -128 to 127.
inline Vec LoadSignedByte(const std::byte* p, int index) {
  const std::byte* from = p + index;
#if defined(OORT_ISA_avx512)
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return Vec(_mm512_maskz_cvtepi32_ps(0xffff, _mm512_maskz_cvtepi8_epi32(0xffff, bytes)));
#elif defined(OORT_ISA_avx2)
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
  return Vec(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)));
#elif defined(OORT_ISA_neon)
  const int8x8_t bytes = vreinterpret_s8_u8(FourBytes(from));
  return Vec(vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(bytes)))));
#else
  float floats[Vec::kWidth];
  for (int i = 0; i < Vec::kWidth; ++i) {
    floats[i] = static_cast<float>(static_cast<int8_t>(from[i]));
  }
  return Vec::Load(floats);
#endif
}

}  // namespace oort::OORT_ISA
