// SPDX-License-Identifier: MIT
// The vector type with one lane: the fallback of every processor and the reference of the tests.
#pragma once

#include <cstdint>
#include <cstring>

// clang-format off: one operation a line
namespace oort::OORT_ISA {

struct Mask {
  bool v;
};

struct IntVec {
  int32_t v;
  IntVec() = default;
  IntVec(int32_t value) : v(value) {}  // NOLINT: implicit on purpose
};

struct Vec {
  static constexpr int kWidth = 1;
  float v;
  Vec() = default;
  Vec(float value) : v(value) {}  // NOLINT: implicit on purpose
  static Vec Zero() { return 0.0f; }
  static Vec Broadcast(float value) { return value; }
  static Vec Load(const float* p) { return *p; }
  static Vec LoadPartial(const float* p, int n) { return n > 0 ? *p : 0.0f; }
  static Vec LoadEven(const float* p) { return *p; }
  void Store(float* p) const { *p = v; }
  void StorePartial(float* p, int n) const {
    if (n > 0) *p = v;
  }
};

inline Vec operator+(Vec a, Vec b) { return a.v + b.v; }
inline Vec operator-(Vec a, Vec b) { return a.v - b.v; }
inline Vec operator*(Vec a, Vec b) { return a.v * b.v; }
inline Vec operator/(Vec a, Vec b) { return a.v / b.v; }
inline Vec operator-(Vec a) { return -a.v; }
inline Mask operator==(Vec a, Vec b) { return {a.v == b.v}; }
inline Mask operator!=(Vec a, Vec b) { return {a.v != b.v}; }
inline Mask operator<(Vec a, Vec b) { return {a.v < b.v}; }
inline Mask operator<=(Vec a, Vec b) { return {a.v <= b.v}; }
inline Mask operator>(Vec a, Vec b) { return {a.v > b.v}; }
inline Mask operator>=(Vec a, Vec b) { return {a.v >= b.v}; }

inline Vec Fma(Vec a, Vec b, Vec c) { return a.v * b.v + c.v; }
inline Vec Fnma(Vec a, Vec b, Vec c) { return c.v - a.v * b.v; }
inline Vec Min(Vec a, Vec b) { return a.v < b.v || a.v != a.v ? a : b; }
inline Vec Max(Vec a, Vec b) { return a.v > b.v || a.v != a.v ? a : b; }
inline Vec QuickQuotient(Vec a, Vec b) { return a / b; }
inline Vec FastMin(Vec a, Vec b) { return a.v < b.v ? a : b; }
inline Vec FastMax(Vec a, Vec b) { return a.v > b.v ? a : b; }
inline Vec Abs(Vec a) { return __builtin_fabsf(a.v); }
inline Vec Sqrt(Vec a) { return __builtin_sqrtf(a.v); }
inline Vec Floor(Vec a) { return __builtin_floorf(a.v); }
inline Vec Ceil(Vec a) { return __builtin_ceilf(a.v); }
inline Vec Trunc(Vec a) { return __builtin_truncf(a.v); }
inline Vec Round(Vec a) { return __builtin_rintf(a.v); }
inline Vec Select(Mask mask, Vec a, Vec b) { return mask.v ? a : b; }
inline IntVec Select(Mask mask, IntVec a, IntVec b) { return mask.v ? a : b; }

inline Mask operator&(Mask a, Mask b) { return {a.v && b.v}; }
inline Mask operator|(Mask a, Mask b) { return {a.v || b.v}; }
inline Mask Not(Mask a) { return {!a.v}; }
inline bool Any(Mask mask) { return mask.v; }
inline bool All(Mask mask) { return mask.v; }
inline bool None(Mask mask) { return !mask.v; }

inline IntVec Bits(Vec a) {
  IntVec r;
  std::memcpy(&r.v, &a.v, sizeof(r.v));
  return r;
}
inline Vec FromBits(IntVec a) {
  Vec r;
  std::memcpy(&r.v, &a.v, sizeof(r.v));
  return r;
}

// Unsigned inside, so that wrapping is defined.
inline IntVec FromUnsigned(uint32_t u) { return static_cast<int32_t>(u); }
inline uint32_t Unsigned(IntVec a) { return static_cast<uint32_t>(a.v); }
inline IntVec operator+(IntVec a, IntVec b) { return FromUnsigned(Unsigned(a) + Unsigned(b)); }
inline IntVec operator-(IntVec a, IntVec b) { return FromUnsigned(Unsigned(a) - Unsigned(b)); }
inline IntVec operator&(IntVec a, IntVec b) { return a.v & b.v; }
inline IntVec operator|(IntVec a, IntVec b) { return a.v | b.v; }
inline IntVec operator^(IntVec a, IntVec b) { return a.v ^ b.v; }
inline Mask operator==(IntVec a, IntVec b) { return {a.v == b.v}; }
inline Mask operator>(IntVec a, IntVec b) { return {a.v > b.v}; }
template <int n>
inline IntVec ShiftLeft(IntVec a) {
  return FromUnsigned(Unsigned(a) << n);
}
template <int n>
inline IntVec ShiftRight(IntVec a) {
  return FromUnsigned(Unsigned(a) >> n);
}
template <int n>
inline IntVec ShiftRightSigned(IntVec a) {
  return a.v >> n;
}

inline Vec And(Vec a, Vec b) { return FromBits(Bits(a) & Bits(b)); }
inline Vec Or(Vec a, Vec b) { return FromBits(Bits(a) | Bits(b)); }
inline Vec Xor(Vec a, Vec b) { return FromBits(Bits(a) ^ Bits(b)); }
inline Vec AndNot(Vec a, Vec b) { return FromBits(IntVec(Bits(a).v & ~Bits(b).v)); }

inline IntVec ToInt(Vec a) {
  const float r = __builtin_rintf(a.v);
  return r >= -2147483648.0f && r < 2147483648.0f ? static_cast<int32_t>(r) : INT32_MIN;
}
inline Vec ToFloat(IntVec a) { return static_cast<float>(a.v); }

inline float ReduceAdd(Vec a) { return a.v; }
inline float ReduceMax(Vec a) { return a.v; }
inline float ReduceMin(Vec a) { return a.v; }

}  // namespace oort::OORT_ISA
