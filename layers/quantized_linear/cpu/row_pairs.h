// SPDX-License-Identifier: MIT
// GEMV of two and more rows on units that multiply matrices of bytes (USMMLA and SMMLA): 2 rows of
// x and 2 of the weight, 8 steps of k each, give 2 x 2 sums. Sums of bytes are exact in any order,
// and floats are added group by group as the kernels of one row add them. So the result of a row is
// what it is alone, bit by bit.
//
// Weights have 4 bits as nibble_rows.h takes them, 8 bits in groups of 32 with f16 scales, or 4 to
// 6 bits as the K-quants of GGUF have them.
#pragma once

#include "layers/quantized_linear/cpu/nibble_rows.h"
#include "layers/quantized_linear/cpu/quantized_kernels.h"

namespace oort {

/// Pairs of rows that meet weights of 4 bits while these are unpacked in registers.
inline constexpr int kBlockPairs = 6;

/// What sums of bytes begin at that are to become floats: the bits of 1.5 * 2^23. The bits of a sum
/// that stays within 2^22 are then those of the float 1.5 * 2^23 + sum, so that a subtraction does
/// what a conversion would, of which processors do fewer at a time.
inline constexpr int32_t kZeroSum = 0x4b400000;

/// 32 steps of two rows of x, rounded as NibbleRows has them. What a row has once stands here twice
/// or more, as 2 x 2 sums have it: of the first row, the second, the first, …
struct alignas(64) NibblePairPiece {
  /// Eight steps of the first row, then of the second: of 16 steps those that meet low nibbles, 0
  /// to 3 and 8 to 11, and then the others.
  int8_t q[4][2][8];
  float scale[4];
  uint16_t offset[8];  ///< scale times sum, in f16
  int32_t start[4];    ///< where sums begin if there are no minimums, counted from kZeroSum
};

/// Rows of x two by two, for weights of 4 bits. The pairs of a block lie together: (block, piece,
/// pair of the block); the last block may have fewer pairs.
struct NibblePairs {
  NibblePairPiece* pieces = nullptr;
  /// The same of second bytes, for the pieces where any row of the block has some. The others have
  /// zeros there: outliers of different rows are mostly in the same pieces.
  NibblePairPiece* fine = nullptr;
  int32_t* fine_piece = nullptr;  ///< (block, which of these): its place in the row
  int32_t* fine_count = nullptr;  ///< of a block
  float* power = nullptr;         ///< of a row: what its results are multiplied by
  int64_t count = 0;              ///< pieces of a pair

  /// The same from a row on with which a block begins.
  NibblePairs From(int64_t row) const {
    const int64_t pair = row / 2, block = pair / kBlockPairs;
    return {pieces + pair * count, fine + pair * count, fine_piece + block * count,
            fine_count + block,    power + row,         count};
  }
};

/// 32 steps of two rows of x, rounded as ByteRows has them for weights of 8 bits.
struct alignas(64) BytePairPiece {
  int8_t q[4][2][8];
  int8_t fine[4][2][8];
  float scale[4];
};

/// Rows of x two by two, for weights of 8 bits.
struct BytePairs {
  BytePairPiece* pieces = nullptr;  ///< (pair, piece)
  int64_t stride = 0;               ///< pieces of a pair

  /// The same from an even row on.
  BytePairs From(int64_t row) const { return {pieces + row / 2 * stride, stride}; }
};

/// `steps` steps, 16 or 32, of two rows of x, rounded as ByteRows has them for 4 to 6 bits.
template <int steps>
struct alignas(32) LowPairPiece {
  int8_t q[steps / 8][2][8];  ///< in the order of NibblePairPiece
  float scale[4];
  float offset[4];
  int32_t sum[4];    ///< of what is multiplied; 0 where the row has second bytes
  int64_t has_fine;  ///< whether one of both rows has second bytes
};
/// The second bytes of such a piece; those of a row that has none are zeros.
template <int steps>
struct alignas(32) LowFinePiece {
  int8_t q[steps / 8][2][8];
  int32_t sum[4];
  int32_t times[4];  ///< what the sums of the first bytes are multiplied by: kFineSteps, or 1
};

/// Rows of x two by two, for weights of 4 to 6 bits.
template <int steps>
struct LowPairs {
  LowPairPiece<steps>* pieces = nullptr;  ///< (pair, piece)
  LowFinePiece<steps>* fine = nullptr;    ///< likewise; those that nobody has are not written
  int64_t stride = 0;                     ///< pieces of a pair

  /// The same from an even row on.
  LowPairs From(int64_t row) const {
    return {pieces + row / 2 * stride, fine + row / 2 * stride, stride};
  }
};
template <int steps>
using LowPairDot = PanelsTimesRows<LowPairs<steps>>;

/// The steps of the pieces in which weights of 4 to 6 bits take pairs; 0: they do not.
inline int StepsOfLowPairs(const PanelLayout& layout) {
  switch (layout.type) {
    case WeightType::kInt4: return layout.group == 32 && layout.scales == ScaleType::kByte ? 32 : 0;
    case WeightType::kInt5: return 32;
    case WeightType::kInt6: return 16;
    default: return 0;
  }
}

using NibblePairDot = PanelsTimesRows<NibblePairs>;
using BytePairDot = PanelsTimesRows<BytePairs>;

inline bool TakesPairsOfBytes(const PanelLayout& layout) {
  return layout.type == WeightType::kInt8 && layout.group == 32 &&
         layout.scales == ScaleType::kF16 && !layout.has_minimum;
}

/// The most rows of x that are multiplied faster in pairs than by units for 16 bits: measured on a
/// Neoverse-V1, in steps of answers on two threads. Weights of 8 bits take two bytes of x, and
/// those of 5 bits with f16 scales are soon dequantized.
inline int64_t MostPairedRows(const PanelLayout& layout) {
  if (TakesNibbles(layout)) return 23;
  return layout.byte_scales() && StepsOfLowPairs(layout) > 0 ? 20 : kMostGemvRows;
}

struct PairKernels {
  /// Fills a pair of the first block with rows that quantize of NibbleKernels rounded; with the
  /// first pair also the second bytes of all rows of the block, of which there are `count_rows`.
  void (*from_nibbles)(const NibbleRows& rows, int count_rows, int pair, const NibblePairs& to);
  /// The same of one pair of rows from `first` on, which quantize of QuantizedKernels rounded for 8
  /// bits.
  void (*from_bytes)(const ByteRows& rows, int64_t first, int count_rows, int64_t count,
                     BytePairPiece* to);
  /// The same for 4 to 6 bits: fills the first pair.
  void (*from_low_32)(const ByteRows& rows, int64_t first, int count_rows, const LowPairs<32>& to);
  void (*from_low_16)(const ByteRows& rows, int64_t first, int count_rows, const LowPairs<16>& to);
  void (*dot_nibbles)(const NibblePairDot& dot);  ///< of TakesNibbles
  void (*dot_bytes)(const BytePairDot& dot);      ///< of TakesPairsOfBytes
  void (*dot_low_32)(const LowPairDot<32>& dot);  ///< of StepsOfLowPairs
  void (*dot_low_16)(const LowPairDot<16>& dot);
};
/// Null where the processor has no such units.
const PairKernels* PairKernelsFor(Isa isa);

}  // namespace oort
