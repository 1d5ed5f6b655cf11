// SPDX-License-Identifier: MIT
// Eight lanes of f16 on NEON. Through cpu/vec_f16.h only.
#pragma once

#include <arm_neon.h>

#include <cstdint>

#include "cpu/vec.h"
#include "oort/dtype.h"

// clang-format off: one operation a line
namespace oort::OORT_ISA {

struct HalfVec {
  static constexpr int kWidth = 8;
  float16x8_t v;
  HalfVec() = default;
  HalfVec(float16x8_t value) : v(value) {}  // NOLINT: implicit on purpose
  HalfVec(float value) : v(vdupq_n_f16(static_cast<float16_t>(value))) {}  // NOLINT: likewise
  static HalfVec Zero() { return vreinterpretq_f16_u16(vdupq_n_u16(0)); }
  static HalfVec Broadcast(Half value) { return vreinterpretq_f16_u16(vdupq_n_u16(value.bits)); }
  static HalfVec Load(const Half* p) { return vreinterpretq_f16_u16(vld1q_u16(&p->bits)); }
  static HalfVec LoadPartial(const Half* p, int n) {
    if (n >= kWidth) return Load(p);
    uint16x8_t x = vdupq_n_u16(0);
    const uint16_t* from = &p->bits;
    if ((n & 1) != 0) x = vld1q_lane_u16(from + (n & 6), x, 0);
    if ((n & 2) != 0) {
      uint32_t two;
      __builtin_memcpy(&two, from + (n & 4), sizeof(two));
      const uint32x4_t moved = vextq_u32(vdupq_n_u32(0), vreinterpretq_u32_u16(x), 3);
      x = vreinterpretq_u16_u32(vsetq_lane_u32(two, moved, 0));
    }
    if ((n & 4) != 0) x = vcombine_u16(vld1_u16(from), vget_low_u16(x));
    return vreinterpretq_f16_u16(x);
  }
  void Store(Half* p) const { vst1q_u16(&p->bits, vreinterpretq_u16_f16(v)); }
  void StorePartial(Half* p, int n) const {
    if (n >= kWidth) return Store(p);
    uint16_t* to = &p->bits;
    uint16x4_t half = vget_low_u16(vreinterpretq_u16_f16(v));
    if ((n & 4) != 0) {
      vst1_u16(to, half);
      to += 4;
      half = vget_high_u16(vreinterpretq_u16_f16(v));
    }
    if ((n & 2) != 0) {
      const uint32_t two = vget_lane_u32(vreinterpret_u32_u16(half), 0);
      __builtin_memcpy(to, &two, sizeof(two));
      to += 2;
      half = vext_u16(half, half, 2);
    }
    if ((n & 1) != 0) vst1_lane_u16(to, half, 0);
  }
};

inline HalfVec operator+(HalfVec a, HalfVec b) { return vaddq_f16(a.v, b.v); }
inline HalfVec operator-(HalfVec a, HalfVec b) { return vsubq_f16(a.v, b.v); }
inline HalfVec operator*(HalfVec a, HalfVec b) { return vmulq_f16(a.v, b.v); }
inline HalfVec operator/(HalfVec a, HalfVec b) { return vdivq_f16(a.v, b.v); }
inline HalfVec Fma(HalfVec a, HalfVec b, HalfVec c) { return vfmaq_f16(c.v, a.v, b.v); }
inline HalfVec Fnma(HalfVec a, HalfVec b, HalfVec c) { return vfmsq_f16(c.v, a.v, b.v); }
inline HalfVec Min(HalfVec a, HalfVec b) { return vminq_f16(a.v, b.v); }
inline HalfVec Max(HalfVec a, HalfVec b) { return vmaxq_f16(a.v, b.v); }

// The instructions keep NaN.
inline HalfVec AtLeast(HalfVec x, HalfVec low) { return Max(x, low); }
inline HalfVec AtMost(HalfVec x, HalfVec high) { return Min(x, high); }
/// 1 / x to ten bits, for 1 <= x <= 2^14.
inline HalfVec QuickInverse(HalfVec x) {
  const float16x8_t guess = vrecpeq_f16(x.v);
  return vmulq_f16(guess, vrecpsq_f16(x.v, guess));
}
/// x * 2^n, where n is in the last bits of `power`, a number of 1024 to 2047.
inline HalfVec TimesPower(HalfVec x, HalfVec power) {
  const int16x8_t exponent = vshlq_n_s16(vreinterpretq_s16_f16(power.v), 10);
  return vreinterpretq_f16_s16(vaddq_s16(vreinterpretq_s16_f16(x.v), exponent));
}
/// The lanes of all three in turns.
inline void StoreInterleaved(HalfVec a, HalfVec b, HalfVec c, Half* p) {
  const uint16x8x3_t three = {
      {vreinterpretq_u16_f16(a.v), vreinterpretq_u16_f16(b.v), vreinterpretq_u16_f16(c.v)}};
  vst3q_u16(&p->bits, three);
}

/// c + a * b[lane]
template <int lane>
inline HalfVec FmaLane(HalfVec a, HalfVec b, HalfVec c) {
  return vfmaq_laneq_f16(c.v, a.v, b.v, lane);
}

/// The lower and the upper four lanes in f32, and back.
inline Vec Low(HalfVec a) { return vcvt_f32_f16(vget_low_f16(a.v)); }
inline Vec High(HalfVec a) { return vcvt_high_f32_f16(a.v); }
inline HalfVec Narrow(Vec low, Vec high) { return vcvt_high_f16_f32(vcvt_f16_f32(low.v), high.v); }

}  // namespace oort::OORT_ISA
