// SPDX-License-Identifier: MIT
// Numbers of eight bits with a point (e4m3, Micikevicius et al. 2022): a sign, four bits of
// exponent, three of mantissa. There are no infinities; 0x7f and 0xff are no numbers.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace oort {

inline constexpr float kLargestE4m3 = 448;

inline float ValueOfE4m3(uint8_t bits) {
  const int exponent = bits >> 3 & 15, mantissa = bits & 7;
  if (exponent == 15 && mantissa == 7) return std::numeric_limits<float>::quiet_NaN();
  const float size = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                   : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  return (bits & 128) != 0 ? -size : size;
}

/// The nearest one, of two as near the even one; what is too large becomes the largest.
inline uint8_t E4m3Of(float value) {
  const auto sign = static_cast<uint8_t>(std::signbit(value) ? 0x80 : 0);
  if (std::isnan(value)) return sign | 0x7f;
  const float size = std::min(std::abs(value), kLargestE4m3);
  // Below the least exponent they are multiples of 2^-9; 8 of these are the first that is not.
  if (size < 0.015625F) return sign | static_cast<uint8_t>(std::nearbyint(size * 512));
  uint32_t bits = std::bit_cast<uint32_t>(size);
  bits += 0x7ffff + (bits >> 20 & 1);
  return sign | static_cast<uint8_t>((bits >> 20) - ((127 - 7) << 3));
}

}  // namespace oort
