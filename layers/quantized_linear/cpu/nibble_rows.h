// SPDX-License-Identifier: MIT
// GEMV of one row with weights of 4 bits in groups of 32 with f16 scales, on units that multiply
// unsigned by signed bytes (USDOT). More rows are multiplied as row_pairs.h says.
//
// A byte of a line is 16 h + l, of two weights h and l. It is multiplied as it is, which spares the
// shift that would take h out of it:
//   16 (h y + l x) = (16 h + l) y + l (16 x - y) = (16 h + l) y + 16 l u,   u = x - y / 16.
// So of every eight steps the last four are stored as y, and the first four as u in their place,
// rounded to steps of the same size: no more is lost than when x itself is rounded.
#pragma once

#include "layers/quantized_linear/cpu/quantized_kernels.h"

namespace oort {

/// A piece that has a second byte, in steps of 1 / kNibbleFineSteps of one of the first.
struct FineNibbles {
  int32_t piece;  ///< its place in the row
  int32_t start;  ///< -8 times the sum of the second bytes
  float scale;    ///< of the second bytes
};
inline constexpr int kNibbleFineSteps = 256;

/// Rows of x in the form above, in pieces of 32. The few pieces whose largest element is so large
/// that rounding it would make most of the error of the whole row have second bytes (see ByteRows),
/// of the same form. Their products are added behind those of all first bytes, so that kernels need
/// not ask at each piece what it has.
struct NibbleRows {
  int8_t* q = nullptr;
  uint16_t* numbers = nullptr;  ///< of a piece: its scale, and that times its sum; f16
  int32_t* start = nullptr;     ///< four times the same: -8 times the sum
  float* power = nullptr;       ///< of a row: what its results are multiplied by
  int8_t* fine = nullptr;       ///< second bytes, of pieces that have them one behind the other
  FineNibbles* fine_of = nullptr;
  int32_t* fine_count = nullptr;  ///< of a row: pieces that have second bytes
  int64_t q_stride = 0;           ///< from one row to the next
  int64_t piece_stride = 0;       ///< likewise, in pieces

  /// The same from a row on.
  NibbleRows From(int64_t row) const {
    const int64_t bytes = row * q_stride, pieces = row * piece_stride;
    return {q + bytes,        numbers + 2 * pieces, start + 4 * pieces, power + row, fine + bytes,
            fine_of + pieces, fine_count + row,     q_stride,           piece_stride};
  }
};

using NibbleDot = PanelsTimesRows<NibbleRows>;

inline bool TakesNibbles(const PanelLayout& layout) {
  return layout.type == WeightType::kInt4 && layout.group == 32 &&
         layout.scales == ScaleType::kF16 && (layout.has_minimum || layout.zero == 8);
}

/// Whether all its numbers fit f16, so that FMLAL can dequantize it. (Weights of 6 bits never have
/// f16 scales.)
inline bool DequantizesByFmlal(const PanelLayout& layout) {
  return layout.quantized() && layout.scales == ScaleType::kF16;
}

struct NibbleKernels {
  /// Rounds `count` elements, a multiple of 32, to the first row of `to`.
  void (*quantize)(const float* x, int64_t count, const NibbleRows& to);
  /// Row by row.
  void (*dot)(const NibbleDot& dot);
  /// DequantizeKernels::unpack_fours of all steps [0, k) of such a panel.
  void (*unpack_fours)(const PanelLayout& layout, const std::byte* panel, int64_t k,
                       const Bf16Target& to);
};
/// Null where the processor has no such units.
const NibbleKernels* NibbleKernelsFor(Isa isa);

}  // namespace oort
