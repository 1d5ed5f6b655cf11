// SPDX-License-Identifier: MIT
// GEMV of two and more rows on units that multiply matrices of bytes (USMMLA and SMMLA): 2 rows of
// x and 2 of the weight, 8 steps of k each, give 2 x 2 sums. Sums of bytes are exact in any order,
// and floats are added group by group as the kernels of one row add them. So the result of a row is
// what it is alone, bit by bit.
//
// Weights have 4 bits as nibble_rows.h takes them, or 8 bits in groups of 32 with f16 scales.
#pragma once

#include "layers/quantized_linear/cpu/nibble_rows.h"
#include "layers/quantized_linear/cpu/quantized_kernels.h"

namespace oort {

/// 32 steps of two rows of x, rounded as NibbleRows or ByteRows have them. What a row has once
/// stands here twice or more, as 2 x 2 sums have it: of the first row, the second, the first, …
struct alignas(64) PairPiece {
  int8_t q[4][2][8];  ///< eight steps of the first row, then of the second
  float scale[4];
  uint16_t offset[8];   ///< of 4 bits: scale times sum, in f16
  int32_t start[4];     ///< of 4 bits: where sums begin, moved by kPairMagic
  uint32_t is_fine[2];  ///< of 4 bits: all bits where the row has a second byte here
  int64_t plain;        ///< of 4 bits: so many pieces from here on have none, in both rows
  int8_t fine[4][2][8];
};

/// The bits of the float 1.5 * 2^23: below 2^22, a whole number that is added to them becomes a
/// float by a subtraction, which processors do more of than of conversions.
inline constexpr int32_t kPairMagic = 0x4b400000;

/// Rows of x two by two.
struct RowPairs {
  PairPiece* pieces = nullptr;  ///< (pair, piece)
  float* power = nullptr;       ///< of a row: what its results are multiplied by; null: by nothing
  int64_t stride = 0;           ///< pieces of a pair

  /// The same from an even row on.
  RowPairs From(int64_t row) const {
    return {pieces + row / 2 * stride, power == nullptr ? nullptr : power + row, stride};
  }
};

using PairDot = PanelsTimesRows<RowPairs>;

inline bool TakesPairsOfBytes(const PanelLayout& layout) {
  return layout.type == WeightType::kInt8 && layout.group == 32 &&
         layout.scales == ScaleType::kF16 && !layout.has_minimum;
}

struct PairKernels {
  /// Takes one or two rows, which quantize of NibbleKernels rounded, `count` pieces of each.
  void (*from_nibbles)(const NibbleRows& rows, int count_rows, int64_t count, PairPiece* to);
  /// The same of rows from `first` on, which quantize of QuantizedKernels rounded for 8 bits.
  void (*from_bytes)(const ByteRows& rows, int64_t first, int count_rows, int64_t count,
                     PairPiece* to);
  /// Of TakesNibbles or TakesPairsOfBytes.
  void (*dot)(const PairDot& dot);
};
/// Null where the processor has no such units.
const PairKernels* PairKernelsFor(Isa isa);

}  // namespace oort
