// SPDX-License-Identifier: MIT
// A few rows of bytes times a panel of 8 to 4 bits, for units whose sums of 16 results take several
// registers. Only for quantized_gemv.dot.cpp, behind a header byte_sums_*.h, which defines
//   kMostRows                  rows that are multiplied at a time
//   ByteSums                   16 sums, with Start(s) (all sums are s), AddFirst(sums of first
//                              bytes), ToFloat(scale, Vec*), AddToFloat(scale, Vec*)
//   Bytes<piece>               the bytes of one row in one piece, loaded
//   AddPiece<type, piece, rows>(lines, bytes, sums)  which multiplies the lines of a piece
//   kWide                      whether weights of 8 bits have instead WideBytes<piece>, with
//                              Load(bytes, second bytes), and AddWide(lines, wide, sums)
#pragma once

#include "cpu/unroll.h"
#include "cpu/vec.h"
#include "layers/quantized_linear/cpu/byte_lines.h"
#include "layers/quantized_linear/cpu/dot_row.h"

namespace oort::OORT_ISA {

inline constexpr int kFloats = kPanelRows / Vec::kWidth;

template <int rows>
using Totals = Vec[rows][kFloats];

/// partial += sums times the scales of x, or = where groups are one piece.
template <typename V>
[[gnu::always_inline]] inline void ScaleSums(const ByteNumbers& numbers, int64_t at,
                                             const ByteSums (&sums)[V::rows],
                                             Totals<V::rows>& partial) {
  Unroll<V::rows>([&](auto r) {
    if constexpr (V::single) {
      sums[r].ToFloat(numbers.scale[at + r], partial[r]);
    } else {
      sums[r].AddToFloat(numbers.scale[at + r], partial[r]);
    }
  });
}

template <int piece>
struct WideBytes;

/// The products of one piece. `at` is where the numbers of x are.
template <typename V>
[[gnu::always_inline]] inline void SumPiece(const ByteRows& x, int64_t at, int zero,
                                            const std::byte* lines, ByteSums (&sums)[V::rows]) {
  const ByteNumbers& numbers = V::NumbersOf(x);
  const auto is_fine = [&](int r) { return V::fine || x.is_fine[at + r] != 0; };
  const auto start = [&](int r) {
    return V::moved ? StartOfProducts(zero, numbers.sum[at + r]) : 0;
  };
  const auto bytes_at = [&](const int8_t* from, int r) { return from + (at + r) * V::piece; };
  if constexpr (V::fine && kWide) {
    WideBytes<V::piece> wide[V::rows];
    Unroll<V::rows>([&](auto r) {
      wide[r].Load(bytes_at(x.q, r), bytes_at(x.fine, r));
      sums[r].Start(start(r));
    });
    AddWide(lines, wide, sums);
  } else {
    Bytes<V::piece> bytes[V::rows];
    const auto load = [&](const int8_t* from) {
      Unroll<V::rows>([&](auto r) { bytes[r].Load(bytes_at(from, r)); });
    };
    bool any_fine = false;
    Unroll<V::rows>([&](auto r) {
      any_fine |= is_fine(r);
      sums[r].Start(is_fine(r) ? 0 : start(r));
    });
    load(x.q);
    AddPiece<V::type, V::piece, V::rows>(lines, bytes, sums);
    if (!any_fine) return;
    ByteSums fine[V::rows];
    load(x.fine);
    Unroll<V::rows>([&](auto r) { fine[r].Start(start(r)); });
    AddPiece<V::type, V::piece, V::rows>(lines, bytes, fine);
    Unroll<V::rows>([&](auto r) {
      if (!is_fine(r)) return;
      fine[r].AddFirst(sums[r]);
      sums[r] = fine[r];
    });
  }
}

/// partial += the products of one piece, times the scales of x, or = where groups are one piece.
template <typename V>
[[gnu::always_inline]] inline void AddScaled(const ByteRows& x, int64_t at, int zero,
                                             const std::byte* lines, Totals<V::rows>& partial) {
  ByteSums sums[V::rows];
  SumPiece<V>(x, at, zero, lines, sums);
  const float* scale = V::NumbersOf(x).scale + at;
  Unroll<V::rows>([&](auto r) {
    if constexpr (V::single) {
      sums[r].ToFloat(scale[r], partial[r]);
    } else {
      sums[r].AddToFloat(scale[r], partial[r]);
    }
  });
}

/// Groups of one panel for rows [first, first + V::rows), which lie in one block of x. `ahead` is
/// prefetched unless null. Sums are kept in registers for one or two rows, in y itself for more.
template <typename V>
void DotRows(const QuantizedDot& dot, int first, const std::byte* ahead) {
  constexpr bool kInMemory = V::rows > 2;
  constexpr int kPieceBytes = (V::type == WeightType::kInt4 ? V::piece / 8 : V::piece / 4) * 64;
  // A copy of what the loop needs, which stores might change for all that the compiler knows.
  const PanelLayout layout = dot.layout;
  const int64_t groups = dot.k / layout.group, group_bytes = layout.group_bytes();
  const int pieces = V::single ? 1 : layout.group / V::piece;
  const int zero = layout.zero + (V::type == WeightType::kInt8 ? kOffset8 : 0);
  const std::byte* const panel = dot.panel;
  const std::byte* data = panel;
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
  int64_t at = dot.x.number_at(first, 0);
  for (int64_t g = 0, span_end = layout.span; g < groups; ++g) {
    if (RowScales<V::scales>::kCounts && g == span_end) {
      start_span();
      span_end += layout.span;
    }
    const std::byte* head = data;
    if (ahead != nullptr) {
      const std::byte* from = ahead + (head - panel);
      for (int64_t line = 0; line < group_bytes; line += 64) __builtin_prefetch(from + line, 0, 1);
    }
    data += group_bytes;
    const GroupLines<V::type> lines(head + V::kHeadBytes);
    Vec partial[V::rows][kFloats];
    float offset[V::rows] = {};
    each([&](auto r, auto i) { partial[r][i] = Vec(0.0f); });
    for (int piece = 0; piece < pieces; ++piece, at += dot.x.block) {
      AddScaled<V>(dot.x, at, zero, lines.data() + piece * kPieceBytes, partial);
      if constexpr (V::minimums) Unroll<V::rows>([&](auto r) { offset[r] += offsets[at + r]; });
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

}  // namespace oort::OORT_ISA
