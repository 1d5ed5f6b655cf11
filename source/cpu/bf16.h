// SPDX-License-Identifier: MIT
// Rounding to bf16, the upper half of an f32, in plain code. Only for *.simd.cpp and *.bf16.cpp.
#pragma once

#include <cstdint>

namespace oort::OORT_ISA {

/// To nearest, ties to even; NaN stays NaN.
inline uint16_t RoundToBf16(float x) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, x);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const uint32_t nan = (bits >> 16) | 0x40u;
  return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

inline float FloatOf(uint16_t bf16) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(bf16) << 16);
}

}  // namespace oort::OORT_ISA
