// SPDX-License-Identifier: MIT
// The vector type on NEON (aarch64): four lanes.
#pragma once

#include <arm_neon.h>

#include <cstdint>

// clang-format off: one operation a line
namespace oort::OORT_ISA {

struct Mask {
  uint32x4_t v;
};

struct IntVec {
  int32x4_t v;
  IntVec() = default;
  IntVec(int32x4_t value) : v(value) {}             // NOLINT: implicit on purpose
  IntVec(int32_t value) : v(vdupq_n_s32(value)) {}  // NOLINT: implicit on purpose
};

struct Vec {
  static constexpr int kWidth = 4;
  float32x4_t v;
  Vec() = default;
  Vec(float32x4_t value) : v(value) {}         // NOLINT: implicit on purpose
  Vec(float value) : v(vdupq_n_f32(value)) {}  // NOLINT: implicit on purpose
  static Vec Zero() { return vdupq_n_f32(0.0f); }
  static Vec Broadcast(float value) { return vdupq_n_f32(value); }
  static Vec Load(const float* p) { return vld1q_f32(p); }
  static Vec LoadPartial(const float* p, int n) {
    if (n >= kWidth) return Load(p);
    float32x2_t low = vdup_n_f32(0.0f), high = low;
    if ((n & 2) != 0) {
      low = vld1_f32(p);
      if ((n & 1) != 0) high = vld1_lane_f32(p + 2, high, 0);
    } else if ((n & 1) != 0) {
      low = vld1_lane_f32(p, low, 0);
    }
    return vcombine_f32(low, high);
  }
  static Vec LoadEven(const float* p) { return vld2q_f32(p).val[0]; }
  void Store(float* p) const { vst1q_f32(p, v); }
  void StorePartial(float* p, int n) const {
    if (n >= kWidth) return Store(p);
    float32x2_t half = vget_low_f32(v);
    if ((n & 2) != 0) {
      vst1_f32(p, half);
      p += 2;
      half = vget_high_f32(v);
    }
    if ((n & 1) != 0) vst1_lane_f32(p, half, 0);
  }
};

inline Vec operator+(Vec a, Vec b) { return vaddq_f32(a.v, b.v); }
inline Vec operator-(Vec a, Vec b) { return vsubq_f32(a.v, b.v); }
inline Vec operator*(Vec a, Vec b) { return vmulq_f32(a.v, b.v); }
inline Vec operator/(Vec a, Vec b) { return vdivq_f32(a.v, b.v); }
inline Vec operator-(Vec a) { return vnegq_f32(a.v); }
inline Mask operator==(Vec a, Vec b) { return {vceqq_f32(a.v, b.v)}; }
inline Mask operator!=(Vec a, Vec b) { return {vmvnq_u32(vceqq_f32(a.v, b.v))}; }
inline Mask operator<(Vec a, Vec b) { return {vcltq_f32(a.v, b.v)}; }
inline Mask operator<=(Vec a, Vec b) { return {vcleq_f32(a.v, b.v)}; }
inline Mask operator>(Vec a, Vec b) { return {vcgtq_f32(a.v, b.v)}; }
inline Mask operator>=(Vec a, Vec b) { return {vcgeq_f32(a.v, b.v)}; }

inline Vec Fma(Vec a, Vec b, Vec c) { return vfmaq_f32(c.v, a.v, b.v); }
inline Vec Fnma(Vec a, Vec b, Vec c) { return vfmsq_f32(c.v, a.v, b.v); }
inline Vec Min(Vec a, Vec b) { return vminq_f32(a.v, b.v); }
inline Vec Max(Vec a, Vec b) { return vmaxq_f32(a.v, b.v); }
inline Vec QuickQuotient(Vec a, Vec b) { return a / b; }
inline Vec FastMin(Vec a, Vec b) { return vminq_f32(a.v, b.v); }
inline Vec FastMax(Vec a, Vec b) { return vmaxq_f32(a.v, b.v); }
inline Vec Abs(Vec a) { return vabsq_f32(a.v); }
inline Vec Sqrt(Vec a) { return vsqrtq_f32(a.v); }
inline Vec Floor(Vec a) { return vrndmq_f32(a.v); }
inline Vec Ceil(Vec a) { return vrndpq_f32(a.v); }
inline Vec Trunc(Vec a) { return vrndq_f32(a.v); }
inline Vec Round(Vec a) { return vrndnq_f32(a.v); }
inline Vec Select(Mask mask, Vec a, Vec b) { return vbslq_f32(mask.v, a.v, b.v); }
inline IntVec Select(Mask mask, IntVec a, IntVec b) { return vbslq_s32(mask.v, a.v, b.v); }

inline Mask operator&(Mask a, Mask b) { return {vandq_u32(a.v, b.v)}; }
inline Mask operator|(Mask a, Mask b) { return {vorrq_u32(a.v, b.v)}; }
inline Mask Not(Mask a) { return {vmvnq_u32(a.v)}; }
inline bool Any(Mask mask) { return vmaxvq_u32(mask.v) != 0; }
inline bool All(Mask mask) { return vminvq_u32(mask.v) != 0; }
inline bool None(Mask mask) { return !Any(mask); }

inline IntVec Bits(Vec a) { return vreinterpretq_s32_f32(a.v); }
inline Vec FromBits(IntVec a) { return vreinterpretq_f32_s32(a.v); }

// Unsigned inside, so that wrapping is defined.
inline uint32x4_t Unsigned(IntVec a) { return vreinterpretq_u32_s32(a.v); }
inline IntVec FromUnsigned(uint32x4_t a) { return vreinterpretq_s32_u32(a); }
inline IntVec operator+(IntVec a, IntVec b) {
  return FromUnsigned(vaddq_u32(Unsigned(a), Unsigned(b)));
}
inline IntVec operator-(IntVec a, IntVec b) {
  return FromUnsigned(vsubq_u32(Unsigned(a), Unsigned(b)));
}
inline IntVec operator&(IntVec a, IntVec b) { return vandq_s32(a.v, b.v); }
inline IntVec operator|(IntVec a, IntVec b) { return vorrq_s32(a.v, b.v); }
inline IntVec operator^(IntVec a, IntVec b) { return veorq_s32(a.v, b.v); }
inline Mask operator==(IntVec a, IntVec b) { return {vceqq_s32(a.v, b.v)}; }
inline Mask operator>(IntVec a, IntVec b) { return {vcgtq_s32(a.v, b.v)}; }
template <int n>
inline IntVec ShiftLeft(IntVec a) {
  return FromUnsigned(vshlq_n_u32(Unsigned(a), n));
}
template <int n>
inline IntVec ShiftRight(IntVec a) {
  return FromUnsigned(vshrq_n_u32(Unsigned(a), n));
}
template <int n>
inline IntVec ShiftRightSigned(IntVec a) {
  return vshrq_n_s32(a.v, n);
}

inline Vec And(Vec a, Vec b) { return FromBits(Bits(a) & Bits(b)); }
inline Vec Or(Vec a, Vec b) { return FromBits(Bits(a) | Bits(b)); }
inline Vec Xor(Vec a, Vec b) { return FromBits(Bits(a) ^ Bits(b)); }
inline Vec AndNot(Vec a, Vec b) { return FromBits(vbicq_s32(Bits(a).v, Bits(b).v)); }

inline IntVec ToInt(Vec a) { return vcvtnq_s32_f32(a.v); }
inline Vec ToFloat(IntVec a) { return vcvtq_f32_s32(a.v); }

inline float ReduceAdd(Vec a) { return vaddvq_f32(a.v); }
inline float ReduceMax(Vec a) { return vmaxvq_f32(a.v); }
inline float ReduceMin(Vec a) { return vminvq_f32(a.v); }

}  // namespace oort::OORT_ISA
