// SPDX-License-Identifier: MIT
// What the kernels on bytes (dot_row*.h) have in common. Only for quantized_gemv.dot.cpp.
#pragma once

#include <cstdint>

#include "layers/quantized_linear/cpu/group_numbers.h"
#include "layers/quantized_linear/cpu/quantized_kernels.h"

namespace oort::OORT_ISA {

/// What kernels add to each weight of 8 bits, but not to those of 5 and 6, which have no sign.
#if defined(OORT_UNIT_avx512_vnni)
inline constexpr int kOffset8 = 128;
#else
inline constexpr int kOffset8 = 0;
#endif

/// One row of x in groups of 32.
struct DotRowX {
  int64_t groups;  ///< at least 1
  const int8_t* q;
  const int8_t* fine;
  const uint8_t* is_fine;  ///< of 4 bits: whether `fine` counts
  const float* scale;
  const float* offset;
  const int32_t* sum;
};

/// All variants add in the same order, so that the result of a row does not depend on `rows`.
template <WeightType type_, int piece_, int rows_, bool minimums_, ScaleType scales_, bool single_>
struct DotVariant {
  static constexpr WeightType type = type_;
  static constexpr int piece = piece_, rows = rows_;
  static constexpr bool minimums = minimums_;
  static constexpr ScaleType scales = scales_;
  static constexpr bool single = single_;  ///< groups are one piece
  /// Whether sums begin at something else than 0. A group with minimums has its zero in them,
  /// unless they were rounded to bytes.
  static constexpr bool moved =
      type == WeightType::kInt8 ? kOffset8 != 0 : !minimums || scales == ScaleType::kByte;
  static constexpr int kHeadBytes = kPanelRows * RowScales<scales>::kBytes * (minimums ? 2 : 1);
  /// Whether all of x has two bytes.
  static constexpr bool fine = type == WeightType::kInt8;
  static const ByteNumbers& NumbersOf(const ByteRows& x) {
    return fine ? x.of_8_bits : x.of_4_bits;
  }
};

}  // namespace oort::OORT_ISA
