// SPDX-License-Identifier: MIT
// Sixteen bytes at a time from numbers on NEON: GCC's vectors take three times as long. Only for
// quantize.simd.cpp.
#pragma once

#include <arm_neon.h>

#include "layers/quantize/quantize_kernels.h"

namespace oort::OORT_ISA {
namespace {

/// The last bytes of numbers to which 1.5 * 2^23 is added: integers, rounded half to even.
inline uint8x16_t LastBytes(const float32x4_t (&values)[4]) {
  const float32x4_t magic = vdupq_n_f32(12582912.0f);
  uint16x8_t integers[4];
  for (int i = 0; i < 4; ++i) integers[i] = vreinterpretq_u16_f32(vaddq_f32(values[i], magic));
  return vuzp1q_u8(vreinterpretq_u8_u16(vuzp1q_u16(integers[0], integers[1])),
                   vreinterpretq_u8_u16(vuzp1q_u16(integers[2], integers[3])));
}

/// Does whole sixteens, and returns how many elements these are.
inline int64_t QuantizeSixteens(const float* x, int64_t count, float inverse, int32_t zero_point,
                                float low, float high, uint8_t* bytes) {
  const float32x4_t least = vdupq_n_f32(low), most = vdupq_n_f32(high);
  const uint8x16_t zero = vdupq_n_u8(static_cast<uint8_t>(zero_point));
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    float32x4_t values[4];
    for (int v = 0; v < 4; ++v) {
      const float32x4_t value = vmulq_n_f32(vld1q_f32(x + i + 4 * v), inverse);
      const uint32x4_t bits = vandq_u32(vreinterpretq_u32_f32(value), vceqq_f32(value, value));
      values[v] = vminq_f32(vmaxq_f32(vreinterpretq_f32_u32(bits), least), most);
    }
    vst1q_u8(bytes + i, vaddq_u8(LastBytes(values), zero));
  }
  return i;
}

/// Four bytes below 0x4b000000 are 2^23 and that byte each.
inline float32x4_t Widen(uint8x16_t bytes, int four) {
  const uint8x16_t zeros = vdupq_n_u8(0);
  const uint16x8_t half =
      vreinterpretq_u16_u8(four < 2 ? vzip1q_u8(bytes, zeros) : vzip2q_u8(bytes, zeros));
  const uint16x8_t exponent = vdupq_n_u16(0x4b00);
  const uint16x8_t wide = four % 2 == 0 ? vzip1q_u16(half, exponent) : vzip2q_u16(half, exponent);
  return vsubq_f32(vreinterpretq_f32_u16(wide), vdupq_n_f32(8388608.0f));
}

/// The same of a sum of bytes.
inline int64_t AddSixteens(const ByteSum& of, int64_t count) {
  const ByteSum sum = of;  // the bytes that are stored might else be those of `of`
  const float32x4_t least = vdupq_n_f32(sum.low), most = vdupq_n_f32(sum.high);
  const uint8x16_t zero = vdupq_n_u8(static_cast<uint8_t>(sum.zero_point));
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const uint8x16_t a = veorq_u8(vld1q_u8(sum.a + i), vdupq_n_u8(sum.flip_a));
    const uint8x16_t b = veorq_u8(vld1q_u8(sum.b + i), vdupq_n_u8(sum.flip_b));
    float32x4_t values[4];
    for (int v = 0; v < 4; ++v) {
      float32x4_t value = vfmaq_n_f32(vdupq_n_f32(sum.rest), Widen(b, v), sum.scale_b);
      value = vfmaq_n_f32(value, Widen(a, v), sum.scale_a);
      values[v] = vminq_f32(vmaxnmq_f32(value, least), most);
    }
    vst1q_u8(sum.out + i, veorq_u8(vaddq_u8(LastBytes(values), zero), vdupq_n_u8(sum.flip_out)));
  }
  return i;
}

/// The same of a product of bytes.
inline int64_t MultiplySixteens(const ByteProduct& of, int64_t count) {
  const ByteProduct product = of;  // the bytes that are stored might else be those of `of`
  const float32x4_t least = vdupq_n_f32(product.low), most = vdupq_n_f32(product.high);
  const uint8x16_t zero = vdupq_n_u8(static_cast<uint8_t>(product.zero_point));
  const uint8x8_t zero_a = vdup_n_u8(static_cast<uint8_t>(product.zero_a));
  const uint8x8_t zero_b = vdup_n_u8(static_cast<uint8_t>(product.zero_b));
  const auto less = [](uint8x8_t bytes, uint8x8_t by) {
    return vreinterpretq_s16_u16(vsubl_u8(bytes, by));
  };
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const uint8x16_t a = veorq_u8(vld1q_u8(product.a + i), vdupq_n_u8(product.flip_a));
    const uint8x16_t b = veorq_u8(vld1q_u8(product.b + i), vdupq_n_u8(product.flip_b));
    const int16x8_t a_halves[2] = {less(vget_low_u8(a), zero_a), less(vget_high_u8(a), zero_a)};
    const int16x8_t b_halves[2] = {less(vget_low_u8(b), zero_b), less(vget_high_u8(b), zero_b)};
    float32x4_t values[4];
    for (int half = 0; half < 2; ++half) {
      const int16x8_t x = a_halves[half], y = b_halves[half];
      values[2 * half] = vcvtq_f32_s32(vmull_s16(vget_low_s16(x), vget_low_s16(y)));
      values[2 * half + 1] = vcvtq_f32_s32(vmull_high_s16(x, y));
    }
    for (float32x4_t& value : values) {
      value = vminq_f32(vmaxnmq_f32(vmulq_n_f32(value, product.scale), least), most);
    }
    vst1q_u8(product.out + i,
             veorq_u8(vaddq_u8(LastBytes(values), zero), vdupq_n_u8(product.flip_out)));
  }
  return i;
}

}  // namespace
}  // namespace oort::OORT_ISA
