// SPDX-License-Identifier: MIT
// One row of bytes times panels of 4 to 8 bits: the GEMV of decode. The sums are those of DotRows,
// bit by bit. Only for quantized_gemv.dot.cpp.
#pragma once

#include <immintrin.h>

#include "cpu/unroll.h"
#include "layers/quantized_linear/cpu/dot_row.h"
#include "layers/quantized_linear/cpu/piece_vnni.h"

namespace oort::OORT_ISA {

/// The number of panels that are multiplied together. They lie one behind another in memory, and
/// each is a stream of its own for the hardware prefetcher, which does not run far ahead in any of
/// them.
struct SidePanels {
  /// How many bytes before their use a stream is prefetched, into the L2 cache.
  static constexpr int64_t kFetchAhead = 2048;
  const std::byte* first;
  int64_t bytes;          ///< of a panel
  int64_t span;           ///< groups whose scales count the steps before them
  int64_t steps;          ///< bytes of these
  const std::byte* then;  ///< what the first stream reads behind its panel
  int64_t then_step;      ///< from there to that of the next stream

  /// Prefetches what belongs to byte `at` of a panel. It is always inlined and a plain loop,
  /// because GCC takes a function that only prefetches for one without effect and drops its calls.
  template <int size>
  [[gnu::always_inline]] void Fetch(int panel, int64_t at) const {
    const int64_t ahead = at + kFetchAhead;
    const std::byte* from =
        ahead < bytes ? first + panel * bytes + ahead : then + panel * then_step + (ahead - bytes);
    for (int i = 0; i < size; i += 64) __builtin_prefetch(from + i, 0, 2);
  }
};

/// Four bytes of x, 16 times.
inline __m512i FourOf(const int8_t* bytes, int index) {
  int32_t four;
  std::memcpy(&four, bytes + 4 * index, sizeof(four));
  return _mm512_set1_epi32(four);
}

/// Groups of 4 bits.
template <bool minimums_, ScaleType scales_>
struct NibbleGroups {
  static constexpr bool minimums = minimums_;
  static constexpr ScaleType scales = scales_;
  static constexpr int kHead = kPanelRows * RowScales<scales>::kBytes * (minimums ? 2 : 1);
  static constexpr int kBytes = kHead + 256;

  /// sums[panel] = start + the products of 32 bytes of x with the lines of a group of each panel.
  template <int panels>
  [[gnu::always_inline]] static void Add(const std::byte* lines, int64_t step, const int8_t* x,
                                         int32_t start, __m512i (&sums)[panels]) {
    const __m512i mask = _mm512_set1_epi8(15);
    // Two chains: an addition waits five cycles for the one before.
    __m512i highs[panels];
    Unroll<panels>([&](auto p) {
      sums[p] = _mm512_set1_epi32(start);
      highs[p] = _mm512_setzero_si512();
    });
    Unroll<4>([&](auto i) {
      const __m512i low = FourOf(x, 2 * i), high = FourOf(x, 2 * i + 1);
      Unroll<panels>([&](auto p) {
        const __m512i w = _mm512_loadu_si512(lines + p * step + 64 * i);
        sums[p] = _mm512_dpbusd_epi32(sums[p], _mm512_and_si512(w, mask), low);
        highs[p] =
            _mm512_dpbusd_epi32(highs[p], _mm512_and_si512(_mm512_srli_epi16(w, 4), mask), high);
      });
    });
    Unroll<panels>([&](auto p) { sums[p] = _mm512_add_epi32(sums[p], highs[p]); });
  }

  template <int panels>
  [[gnu::always_inline]] static void Sums(const DotRowX& x, int64_t g, int zero,
                                          const std::byte* group, int64_t step,
                                          __m512i (&sums)[panels]) {
    const int32_t start =
        minimums && scales == ScaleType::kF16 ? 0 : StartOfProducts(zero, x.sum[g]);
    if (x.is_fine[g] == 0) return Add<panels>(group + kHead, step, x.q + 32 * g, start, sums);
    __m512i first[panels];
    Add<panels>(group + kHead, step, x.q + 32 * g, 0, first);
    Add<panels>(group + kHead, step, x.fine + 32 * g, start, sums);
    Unroll<panels>([&](auto p) { sums[p] = BothBytes(first[p], sums[p]); });
  }
};

/// Groups of 8 bits, with two bytes of x.
struct ByteGroups {
  static constexpr bool minimums = false;
  static constexpr ScaleType scales = ScaleType::kF16;
  static constexpr int kHead = 32, kBytes = kHead + 512;

  template <int panels>
  [[gnu::always_inline]] static void Sums(const DotRowX& x, int64_t g, int zero,
                                          const std::byte* group, int64_t step,
                                          __m512i (&sums)[panels]) {
    const __m512i turn = _mm512_set1_epi8(static_cast<char>(0x80));
    __m512i first[panels];
    Unroll<panels>([&](auto p) {
      first[p] = _mm512_setzero_si512();
      sums[p] = _mm512_set1_epi32(-(zero + kOffset8) * x.sum[g]);
    });
    Unroll<8>([&](auto i) {
      const __m512i q = FourOf(x.q + 32 * g, i), fine = FourOf(x.fine + 32 * g, i);
      Unroll<panels>([&](auto p) {
        const __m512i w = _mm512_loadu_si512(group + p * step + kHead + 64 * i);
        const __m512i moved = _mm512_xor_si512(w, turn);
        first[p] = _mm512_dpbusd_epi32(first[p], moved, q);
        sums[p] = _mm512_dpbusd_epi32(sums[p], moved, fine);
      });
    });
    Unroll<panels>([&](auto p) { sums[p] = BothBytes(first[p], sums[p]); });
  }
};

/// Groups of 5 bits in pieces of 32, or of 6 bits in pieces of 16.
template <WeightType type, bool minimums_, ScaleType scales_>
struct JoinedGroups {
  static constexpr bool minimums = minimums_;
  static constexpr ScaleType scales = scales_;
  static constexpr bool kFive = type == WeightType::kInt5;
  static constexpr int kGroup = kFive ? 32 : 16, kFours = kGroup / 4;
  static constexpr int kHead = kPanelRows * RowScales<scales>::kBytes * (minimums ? 2 : 1);
  static constexpr int kBytes = kHead + kGroup * kPanelRows * (kFive ? 5 : 6) / 8;

  template <int panels>
  [[gnu::always_inline]] static void Sums(const DotRowX& x, int64_t g, int zero,
                                          const std::byte* group, int64_t step,
                                          __m512i (&sums)[panels]) {
    const bool fine = x.is_fine[g] != 0;
    const int32_t start = StartOfProducts(zero, x.sum[g]);
    Unroll<panels>([&](auto p) {
      __m512i w[kFours];
      TakePiece<type, kGroup>(group + p * step + kHead, w);
      const auto add = [&](const int8_t* bytes, int32_t from) {
        // Two chains: an addition waits five cycles for the one before.
        __m512i even = _mm512_set1_epi32(from), odd = _mm512_setzero_si512();
        Unroll<kFours / 2>([&](auto i) {
          even = _mm512_dpbusd_epi32(even, w[2 * i], FourOf(bytes + kGroup * g, 2 * i));
          odd = _mm512_dpbusd_epi32(odd, w[2 * i + 1], FourOf(bytes + kGroup * g, 2 * i + 1));
        });
        return _mm512_add_epi32(even, odd);
      };
      sums[p] = fine ? BothBytes(add(x.q, 0), add(x.fine, start)) : add(x.q, start);
    });
  }
};

/// y[16 * panel + i] for `panels` panels side by side.
template <typename Groups, int panels>
void DotSidePanels(const DotRowX& x, int zero, const SidePanels& side, float* y) {
  __m512 totals[panels];
  RowScales<Groups::scales> scales[panels];
  Unroll<panels>([&](auto p) { totals[p] = _mm512_setzero_ps(); });
  const std::byte* group = side.first;
  const auto start_span = [&]() __attribute__((always_inline)) {
    Unroll<panels>([&](auto p) { scales[p] = {group + p * side.bytes, 0}; });
    group += side.steps;
  };
  start_span();
  for (int64_t g = 0, span_end = side.span; g < x.groups; ++g, group += Groups::kBytes) {
    if (RowScales<Groups::scales>::kCounts && g == span_end) {
      start_span();
      span_end += side.span;
    }
    Unroll<panels>([&](auto p) __attribute__((always_inline)) {
      side.Fetch<Groups::kBytes>(p, group - side.first);
    });
    __m512i sums[panels];
    Groups::template Sums<panels>(x, g, zero, group, side.bytes, sums);
    const __m512 scale = _mm512_set1_ps(x.scale[g]);
    Unroll<panels>([&](auto p) {
      const std::byte* head = group + p * side.bytes;
      // In the order of DotRows.
      if constexpr (Groups::minimums) {
        const __m512 offset = _mm512_set1_ps(x.offset[g]);
        totals[p] = _mm512_fmadd_ps(scales[p].Minimum(head).v, offset, totals[p]);
      }
      const __m512 partial = _mm512_mul_ps(_mm512_cvtepi32_ps(sums[p]), scale);
      totals[p] = _mm512_fmadd_ps(partial, scales[p].Scale(head).v, totals[p]);
    });
  }
  Unroll<panels>([&](auto p) { _mm512_storeu_ps(y + 16 * p, totals[p]); });
}

/// All panels of `dot` times its only row.
template <typename Groups>
void DotPanelsOfRow(const QuantizedDot& dot, const DotRowX& x) {
  const PanelLayout& layout = dot.layout;
  const int64_t bytes = layout.panel_bytes(dot.k);
  const std::byte* panel = dot.panel;
  float* y = dot.y;
  for (int64_t left = dot.panels; left > 0;) {
    const int64_t some = left >= 4 ? 4 : left >= 2 ? 2 : 1;
    SidePanels side{panel, bytes, layout.span, layout.steps_bytes(), panel + some * bytes, bytes};
    if (side.then >= dot.end) {
      // Where nothing follows, prefetching what is in the cache already costs nothing.
      side.then = dot.next == nullptr ? panel : dot.next;
      side.then_step = SidePanels::kFetchAhead;
    }
    if (some == 4) {
      DotSidePanels<Groups, 4>(x, layout.zero, side, y);
    } else if (some == 2) {
      DotSidePanels<Groups, 2>(x, layout.zero, side, y);
    } else {
      DotSidePanels<Groups, 1>(x, layout.zero, side, y);
    }
    left -= some;
    panel += some * bytes;
    y += some * kPanelRows;
  }
}

}  // namespace oort::OORT_ISA
