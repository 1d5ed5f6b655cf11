// SPDX-License-Identifier: MIT
// The blocks in which GGUF stores rows of weights.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "weights/weight_format.h"

namespace oort {

struct BlockFormat {
  int elements = 0;  ///< of a block
  int bytes = 0;
  GroupLayout layout;
  /// Takes `blocks` whole blocks apart; their bytes may lie at any address. `minimum` is null where
  /// the layout has none.
  void (*read)(const std::byte* bytes, int64_t blocks, int8_t* q, float* scale,
               float* minimum) = nullptr;
  /// The steps of each block, see ReadSteps; null where the layout has no spans.
  void (*read_steps)(const std::byte* bytes, int64_t blocks, float* scale,
                     float* minimum) = nullptr;
};

/// Null for Oort's own formats.
const BlockFormat* BlockFormatOf(WeightFormat format);

/// HalfToFloat without branches, for loops: a product scales the exponent, of subnormals as well.
/// (A signalling NaN may come out quiet.)
inline float HalfBitsToFloat(uint16_t bits) {
#if defined(__aarch64__)
  return static_cast<float>(std::bit_cast<__fp16>(bits));
#else
  const uint32_t magnitude = (bits & 0x7fffU) << 13;
  const uint32_t finite = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112F);
  const uint32_t value = magnitude >= 0x7c00U << 13 ? magnitude | 0x7f800000U : finite;
  return std::bit_cast<float>((bits & 0x8000U) << 16 | value);
#endif
}

}  // namespace oort
