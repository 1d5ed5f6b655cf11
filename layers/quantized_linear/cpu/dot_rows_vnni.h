// SPDX-License-Identifier: MIT
// Up to eight rows of bytes times a panel of 4 to 8 bits. The weights of a piece stay in registers
// while rows of x pass by, so that what unpacks them costs little beside the products. Only for
// quantized_gemv.dot.cpp.
#pragma once

#include <cstring>

#include "layers/quantized_linear/cpu/dot_row.h"
#include "layers/quantized_linear/cpu/piece_vnni.h"

namespace oort::OORT_ISA {

/// start = sums * factor
template <int rows>
[[gnu::always_inline]] inline void StartSums(const int32_t* sums, int factor, int32_t* start) {
  if constexpr (rows == 8) {
    const __m256i all = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(sums));
    _mm256_store_si256(reinterpret_cast<__m256i*>(start),
                       _mm256_mullo_epi32(all, _mm256_set1_epi32(factor)));
  } else {
    Unroll<rows>([&](auto r) { start[r] = sums[r] * factor; });
  }
}

/// Groups of one panel for rows [first, first + V::rows), which lie in one block of x. `ahead` is
/// prefetched unless null.
template <typename V>
void DotRows(const QuantizedDot& dot, int first, const std::byte* ahead) {
  constexpr int rows = V::rows, piece = V::piece;
  constexpr int kPieceBytes = (V::type == WeightType::kInt4 ? piece / 8 : piece / 4) * 64;
  const PanelLayout& layout = dot.layout;
  const int64_t groups = dot.k / layout.group, step = dot.x.block;
  const int pieces = V::single ? 1 : layout.group / piece;
  const int zero = layout.zero + (V::type == WeightType::kInt8 ? kOffset8 : 0);
  int64_t at = dot.x.number_at(first, 0);
  const int8_t* q = dot.x.q + at * piece;
  const int8_t* fine = dot.x.fine + at * piece;
  const ByteNumbers numbers = V::NumbersOf(dot.x);
  const std::byte* data = dot.panel;
  RowScales<V::scales> scales;
  const auto start_span = [&]() __attribute__((always_inline)) {
    scales = {data, 0};
    data += layout.steps_bytes();
  };
  start_span();
  __m512 total[rows];
  Unroll<rows>([&](auto r) __attribute__((always_inline)) { total[r] = _mm512_setzero_ps(); });
  for (int64_t g = 0, span_end = layout.span; g < groups; ++g) {
    if (RowScales<V::scales>::kCounts && g == span_end) {
      start_span();
      span_end += layout.span;
    }
    const std::byte* head = data;
    const std::byte* lines = head + V::kHeadBytes;
    data += layout.group_bytes();
    if (ahead != nullptr) {
      for (const std::byte* line = head; line < data; line += 64) {
        __builtin_prefetch(ahead + (line - dot.panel), 0, 2);
      }
    }
    __m512 partial[rows];
    float offset[rows] = {};
    if constexpr (!V::single) {
      Unroll<rows>([&](auto r)
                       __attribute__((always_inline)) { partial[r] = _mm512_setzero_ps(); });
    }
    const __m512 scale = scales.Scale(head).v;
    __m512 minimum = _mm512_setzero_ps();
    if constexpr (V::minimums) minimum = scales.Minimum(head).v;
    for (int i = 0; i < pieces; ++i, lines += kPieceBytes) {
      __m512i w[piece / 4];
      TakePiece<V::type, piece>(lines, w);
      alignas(32) int32_t start[kMostRows];
      if constexpr (V::moved) StartSums<rows>(numbers.sum + at, -zero, start);
      uint64_t any_fine = 0;
      if constexpr (!V::fine) std::memcpy(&any_fine, dot.x.is_fine + at, rows);
      __m512i sum[rows];
      const auto started = [&](auto r) __attribute__((always_inline)) {
        return V::moved ? _mm512_set1_epi32(start[r]) : _mm512_setzero_si512();
      };
      Unroll<rows>([&](auto r) __attribute__((always_inline)) {
        sum[r] = V::fine ? _mm512_setzero_si512() : started(r);
      });
      AddBytes(w, q, sum);
      if constexpr (V::fine) {
        Unroll<rows>([&](auto r) __attribute__((always_inline)) {
          sum[r] = BothBytes(sum[r], started(r));
        });
        AddBytes(w, fine, sum);
      } else if (any_fine != 0) [[unlikely]] {
        Unroll<rows>([&](auto r) __attribute__((always_inline)) {
          if (dot.x.is_fine[at + r] == 0) return;
          __m512i both[1] = {BothBytes(_mm512_sub_epi32(sum[r], started(r)), started(r))};
          AddBytes(w, fine + r * piece, both);
          sum[r] = both[0];
        });
      }
      Unroll<rows>([&](auto r) __attribute__((always_inline)) {
        const __m512 value = _mm512_cvtepi32_ps(sum[r]);
        const __m512 x_scale = _mm512_set1_ps(numbers.scale[at + r]);
        if constexpr (!V::single) {
          partial[r] = _mm512_fmadd_ps(value, x_scale, partial[r]);
          if constexpr (V::minimums) offset[r] += numbers.offset[at + r];
        } else {
          // In the order of the kernels of one row.
          if constexpr (V::minimums) {
            total[r] = _mm512_fmadd_ps(minimum, _mm512_set1_ps(numbers.offset[at + r]), total[r]);
          }
          total[r] = _mm512_fmadd_ps(_mm512_mul_ps(value, x_scale), scale, total[r]);
        }
      });
      q += step * piece;
      fine += step * piece;
      at += step;
    }
    if constexpr (!V::single) {
      Unroll<rows>([&](auto r) __attribute__((always_inline)) {
        if constexpr (V::minimums) {
          total[r] = _mm512_fmadd_ps(minimum, _mm512_set1_ps(offset[r]), total[r]);
        }
        total[r] = _mm512_fmadd_ps(partial[r], scale, total[r]);
      });
    }
  }
  Unroll<rows>([&](auto r) __attribute__((always_inline)) {
    _mm512_storeu_ps(dot.y + (first + r) * dot.y_stride, total[r]);
  });
}

}  // namespace oort::OORT_ISA
