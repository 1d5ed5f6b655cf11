// SPDX-License-Identifier: MIT
// Products of weights of 8 to 4 bits with bytes, on units that sum four products of bytes.
#include "cpu/unroll.h"
#include "cpu/vec.h"
#include "layers/quantized_linear/cpu/byte_lines.h"
#include "layers/quantized_linear/cpu/group_numbers.h"
#include "layers/quantized_linear/cpu/quantized_kernels.h"

#if defined(OORT_UNIT_neon_dot)
#include "layers/quantized_linear/cpu/byte_sums_neon.h"
#include "layers/quantized_linear/cpu/dot_row_low_bits_neon.h"
#include "layers/quantized_linear/cpu/dot_row_neon.h"
#elif defined(OORT_UNIT_avx512_vnni)
#include "layers/quantized_linear/cpu/byte_sums_vnni.h"
#include "layers/quantized_linear/cpu/dot_row_vnni.h"
#elif defined(OORT_UNIT_avx2_dot)
#include "layers/quantized_linear/cpu/byte_sums_avx2.h"
#endif

namespace oort::OORT_ISA {
namespace {

// A header byte_sums_*.h defines
//   kMostRows                  rows that are multiplied at a time
//   ByteSums                   16 sums, with Start(s) (all sums are s), AddFirst(sums of first
//                              bytes), ToFloat(scale, Vec*), AddToFloat(scale, Vec*)
//   Bytes<piece>               the bytes of one row in one piece, loaded
//   AddPiece<type, piece, rows>(lines, bytes, sums)  which multiplies the lines of a piece
//   kOffset8                   what AddPiece adds to each weight of 8 bits, but not of 5 and 6,
//                              which have no sign
constexpr int kFloats = kPanelRows / Vec::kWidth;

template <int rows>
using Totals = Vec[rows][kFloats];

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
  static constexpr int kPieceBytes = (type == WeightType::kInt4 ? piece / 8 : piece / 4) * 64;
  static constexpr int kHeadBytes = kPanelRows * RowScales<scales>::kBytes * (minimums ? 2 : 1);
  /// Whether all of x has two bytes.
  static constexpr bool fine = type == WeightType::kInt8;
  static const ByteNumbers& NumbersOf(const ByteRows& x) {
    return fine ? x.of_8_bits : x.of_4_bits;
  }
};

/// The least number of bytes by which a panel is prefetched before its use. Weights of 8 bits are
/// consumed faster.
template <WeightType type>
constexpr int64_t kAheadBytes = type == WeightType::kInt8 ? 19456 : 10240;

/// partial += the products of one piece, times the scales of x.
template <typename V>
[[gnu::always_inline]] inline void AddScaled(const QuantizedDot& dot, int first, int zero,
                                             int64_t p, const std::byte* lines,
                                             Totals<V::rows>& partial) {
  const ByteNumbers& numbers = V::NumbersOf(dot.x);
  const auto at = [&](int r) { return (first + r) * dot.x.piece_stride + p; };
  const auto is_fine = [&](int r) { return V::fine || dot.x.is_fine[at(r)] != 0; };
  const auto start = [&](int r) { return V::moved ? -zero * numbers.sum[at(r)] : 0; };
  ByteSums sums[V::rows];
  Bytes<V::piece> bytes[V::rows];
  const auto load = [&](const int8_t* from) {
    Unroll<V::rows>(
        [&](auto r) { bytes[r].Load(from + (first + r) * dot.x.q_stride + p * V::piece); });
  };
  bool any_fine = false;
  Unroll<V::rows>([&](auto r) {
    any_fine |= is_fine(r);
    sums[r].Start(is_fine(r) ? 0 : start(r));
  });
  load(dot.x.q);
  AddPiece<V::type, V::piece, V::rows>(lines, bytes, sums);
  if (any_fine) {
    ByteSums fine[V::rows];
    load(dot.x.fine);
    Unroll<V::rows>([&](auto r) { fine[r].Start(start(r)); });
    AddPiece<V::type, V::piece, V::rows>(lines, bytes, fine);
    Unroll<V::rows>([&](auto r) {
      if (!is_fine(r)) return;
      fine[r].AddFirst(sums[r]);
      sums[r] = fine[r];
    });
  }
  Unroll<V::rows>([&](auto r) {
    if constexpr (V::single) {
      sums[r].ToFloat(numbers.scale[at(r)], partial[r]);
    } else {
      sums[r].AddToFloat(numbers.scale[at(r)], partial[r]);
    }
  });
}

#if defined(OORT_UNIT_avx512_vnni)
constexpr bool kByteScalesByHand = true;
#else
constexpr bool kByteScalesByHand = false;
#endif

/// Whether the unit has kernels of one row that were written by hand.
#if defined(OORT_UNIT_avx512_vnni)
constexpr bool kHasByHand = true;
#elif defined(OORT_UNIT_neon_dot)
constexpr bool kHasByHand = OORT_HAS_ASSEMBLY;
#else
constexpr bool kHasByHand = false;
#endif

/// Whether the variant was written by hand.
template <typename V>
[[maybe_unused]] inline constexpr bool kByHand =
    kHasByHand&& V::rows == 1 && V::single && !IsJoined(V::type) && !(V::fine && V::minimums) &&
    (V::scales == ScaleType::kF16 || (kByteScalesByHand && V::scales == ScaleType::kByte));

#if defined(OORT_UNIT_neon_dot)
/// Whether DotRowLowBits takes the variant, where groups are one piece.
template <typename V>
inline constexpr bool kTight = V::rows == 1 && V::type != WeightType::kInt8 &&
                               (IsJoined(V::type) || RowScales<V::scales>::kCounts);
#endif

#if defined(OORT_UNIT_neon_dot) || defined(OORT_UNIT_avx512_vnni)
template <typename V>
DotRowX RowOf(const QuantizedDot& dot, int row) {
  const int64_t at = row * dot.x.piece_stride, bytes_at = row * dot.x.q_stride;
  const ByteNumbers& of = V::NumbersOf(dot.x);
  return {dot.k / dot.layout.group,
          dot.x.q + bytes_at,
          dot.x.fine + bytes_at,
          dot.x.is_fine + at,
          of.scale + at,
          of.offset + at,
          of.sum + at};
}
#endif

/// Groups of one panel for some rows. `total` is where sums are kept: registers for one or two
/// rows, y itself for more.
template <typename V>
void DotRows(const QuantizedDot& dot, int first, const std::byte* ahead) {
  constexpr bool kInMemory = V::rows > 2;
  const PanelLayout& layout = dot.layout;
  const int64_t groups = dot.k / layout.group;
#if defined(OORT_UNIT_neon_dot)
#if OORT_HAS_ASSEMBLY
  if constexpr (kByHand<V>) {
    const DotRowX x = RowOf<V>(dot, first);
    float* y = dot.y + first * dot.y_stride;
    if (groups > 0) {
      if constexpr (V::fine) {
        return DotRowInt8(x, dot.panel, ahead, y);
      } else {
        return DotRowInt4<V::minimums>(x, layout.zero, dot.panel, ahead, y);
      }
    }
  }
#endif
  if constexpr (kTight<V>) {
    if (layout.group == V::piece) {
      return DotRowLowBits<V::type, V::minimums, V::scales, V::piece>(
          RowOf<V>(dot, first), layout, dot.panel, ahead, dot.y + first * dot.y_stride);
    }
  }
#endif
  const int pieces = V::single ? 1 : layout.group / V::piece;
  const int zero = layout.zero + (V::type == WeightType::kInt8 ? kOffset8 : 0);
  const std::byte* data = dot.panel;
  RowScales<V::scales> scales[kFloats];
  const auto start_span = [&] {
    Unroll<kFloats>([&](auto i) { scales[i] = {data, i * Vec::kWidth}; });
    data += layout.steps_bytes();
  };
  start_span();
  [[maybe_unused]] const float* offsets = V::NumbersOf(dot.x).offset;
  const auto y = [&](int r, int i) { return dot.y + (first + r) * dot.y_stride + i * Vec::kWidth; };
  Vec total[kInMemory ? 1 : V::rows][kFloats];
  const auto each = [&](auto body) {
    Unroll<V::rows>([&](auto r) { Unroll<kFloats>([&](auto i) { body(r, i); }); });
  };
  each([&](auto r, auto i) {
    if constexpr (kInMemory) {
      Vec(0.0f).Store(y(r, i));
    } else {
      total[r][i] = Vec(0.0f);
    }
  });
  int64_t p = 0;
  for (int64_t g = 0, span_end = layout.span; g < groups; ++g) {
    if (RowScales<V::scales>::kCounts && g == span_end) {
      start_span();
      span_end += layout.span;
    }
    const std::byte* head = data;
    if constexpr (V::rows == 1) {
      for (int64_t line = 0; line < layout.group_bytes(); line += 64) {
        __builtin_prefetch(ahead + (head - dot.panel) + line, 0, 1);
      }
    }
    data += layout.group_bytes();
    const GroupLines<V::type> lines(head + V::kHeadBytes);
    Vec partial[V::rows][kFloats];
    float offset[V::rows] = {};
    each([&](auto r, auto i) { partial[r][i] = Vec(0.0f); });
    for (int piece_of_group = 0; piece_of_group < pieces; ++piece_of_group, ++p) {
      AddScaled<V>(dot, first, zero, p, lines.data() + piece_of_group * V::kPieceBytes, partial);
      if constexpr (V::minimums) {
        Unroll<V::rows>(
            [&](auto r) { offset[r] += offsets[(first + r) * dot.x.piece_stride + p]; });
      }
    }
    Unroll<kFloats>([&](auto i) {
      const Vec scale = scales[i].Scale(head);
      Vec minimum(0.0f);
      if constexpr (V::minimums) minimum = scales[i].Minimum(head);
      Unroll<V::rows>([&](auto r) {
        Vec sum = kInMemory ? Vec::Load(y(r, i)) : total[kInMemory ? 0 : r][i];
        if constexpr (V::minimums) sum = Fma(minimum, Vec(offset[r]), sum);
        sum = Fma(partial[r][i], scale, sum);
        if constexpr (kInMemory) {
          sum.Store(y(r, i));
        } else {
          total[r][i] = sum;
        }
      });
    });
  }
  if constexpr (!kInMemory) each([&](auto r, auto i) { total[r][i].Store(y(r, i)); });
}

#if defined(OORT_UNIT_avx512_vnni)
/// One row, where that was written by hand; gives whether it was.
template <typename V>
bool DotOneRow(const QuantizedDot& dot, int row) {
  if constexpr (IsJoined(V::type)) {
    using Groups = JoinedGroups<V::type, V::minimums, V::scales>;
    DotPanelsOfRow<Groups>(dot, RowOf<V>(dot, row), row);
  } else if constexpr (kByHand<V>) {
    using Nibbles = NibbleGroups<V::minimums, V::scales>;
    using Groups = std::conditional_t<V::fine, ByteGroups, Nibbles>;
    DotPanelsOfRow<Groups>(dot, RowOf<V>(dot, row), row);
  }
  return IsJoined(V::type) || kByHand<V>;
}
#endif

template <WeightType type, int piece, bool minimums, ScaleType scales, bool single>
void DotAllRows(const QuantizedDot& all) {
  int rows = all.rows;
#if defined(OORT_UNIT_avx512_vnni)
  using One = DotVariant<type, piece, 1, minimums, scales, single>;
  if (rows % 2 != 0 && DotOneRow<One>(all, rows - 1)) --rows;
#endif
  if (rows == 0) return;  // before the copy, which would stall on recent stores
  QuantizedDot dot = all;
  dot.rows = rows;
  const int64_t bytes = dot.layout.panel_bytes(dot.k);
  const int64_t distance = bytes == 0 ? 0 : (kAheadBytes<type> / bytes + 1) * bytes;
  for (int64_t p = 0; p < dot.panels; ++p, dot.panel += bytes, dot.y += kPanelRows) {
    const std::byte* ahead = AheadOf(dot, distance);
    int row = 0;
    if constexpr (kMostRows > 2) {
      for (; row + 4 <= dot.rows; row += 4) {
        DotRows<DotVariant<type, piece, 4, minimums, scales, single>>(dot, row, ahead);
      }
    }
    for (; row + 2 <= dot.rows; row += 2) {
      DotRows<DotVariant<type, piece, 2, minimums, scales, single>>(dot, row, ahead);
    }
    if (row < dot.rows)
      DotRows<DotVariant<type, piece, 1, minimums, scales, single>>(dot, row, ahead);
  }
}

template <WeightType type, bool minimums, ScaleType scales>
void DotPieces(const QuantizedDot& dot) {
  if constexpr (type == WeightType::kInt6) {
    DotAllRows<type, 16, minimums, scales, false>(dot);
  } else if constexpr (type == WeightType::kInt5) {
    DotAllRows<type, 32, minimums, scales, true>(dot);
  } else if (dot.x.piece == 16) {
    DotAllRows<type, 16, minimums, scales, false>(dot);
  } else if (dot.layout.group != 32) {
    DotAllRows<type, 32, minimums, scales, false>(dot);
  } else {
    DotAllRows<type, 32, minimums, scales, true>(dot);
  }
}

template <WeightType type>
void DotType(const QuantizedDot& dot) {
  WithScales(dot.layout.scales, [&](auto tag) {
    constexpr ScaleType kScales = decltype(tag)::kType;
    if constexpr (WeightTypeExists(type, kScales)) {
      if constexpr (kScales == ScaleType::kByte) {
        DotPieces<type, true, kScales>(dot);
      } else if constexpr (kScales == ScaleType::kSignedByte) {
        DotPieces<type, false, kScales>(dot);
      } else if (dot.layout.has_minimum) {
        DotPieces<type, true, kScales>(dot);
      } else {
        DotPieces<type, false, kScales>(dot);
      }
    }
  });
}

void Dot(const QuantizedDot& dot) {
  switch (dot.layout.type) {
    case WeightType::kInt4: return DotType<WeightType::kInt4>(dot);
    case WeightType::kInt5: return DotType<WeightType::kInt5>(dot);
    case WeightType::kInt6: return DotType<WeightType::kInt6>(dot);
    default: return DotType<WeightType::kInt8>(dot);
  }
}

}  // namespace

const QuantizedDotKernels& QuantizedDotKernelsGet() {
  static constexpr QuantizedDotKernels kTable = {.dot = Dot, .byte_scales = kByteScalesByHand};
  return kTable;
}

}  // namespace oort::OORT_ISA
