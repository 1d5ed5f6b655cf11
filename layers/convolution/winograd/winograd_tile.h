// SPDX-License-Identifier: MIT
// A few rows times one panel of columns, in registers. Only for winograd.lanes.cpp.
// MultiplyTiles makes M of a WinogradProduct, by MultiplySome<rows>(a, lda, k, b, c, ldc, soon,
// soon_step): c[rows][kWinogradColumns] = a[rows][k] b. `soon` may be fetched into the cache,
// soon_step bytes for each step of k.
#pragma once

#include "cpu/lanes.h"
#include "cpu/unroll.h"
#include "layers/convolution/winograd/winograd_kernels.h"

#if defined(OORT_UNIT_neon_f16)
#include "layers/convolution/winograd/winograd_tile_f16_neon.h"
#else

namespace oort::OORT_ISA {

#if defined(OORT_ISA_neon)
inline constexpr int kWinogradRows = 5, kWinogradVectors = 4;
#elif defined(OORT_UNIT_avx512_f16)
inline constexpr int kWinogradRows = 12, kWinogradVectors = 2;
#elif defined(OORT_ISA_avx512)
inline constexpr int kWinogradRows = 6, kWinogradVectors = 4;
#elif defined(OORT_ISA_avx2)
inline constexpr int kWinogradRows = 6, kWinogradVectors = 2;
#else
inline constexpr int kWinogradRows = 4, kWinogradVectors = 4;
#endif
inline constexpr int kWinogradColumns = kWinogradVectors * Lanes::kWidth;

}  // namespace oort::OORT_ISA

#if defined(OORT_ISA_neon)
#include "cpu/assembly_neon.h"
#endif
#if defined(OORT_ISA_neon) && OORT_HAS_ASSEMBLY
#include "layers/convolution/winograd/winograd_tile_neon.h"
#else

namespace oort::OORT_ISA {

/// As many steps of k as are summed one after another; `adds` to what c holds.
template <int rows, bool adds>
inline void MultiplySteps(const Element* a, int64_t lda, int64_t k, const Element* b, Element* c,
                          int64_t ldc, const Element* soon, int64_t soon_step) {
  constexpr int kVectors = kWinogradVectors, kWidth = Lanes::kWidth;
  Lanes sums[rows][kVectors];
  Unroll<rows>([&](auto r) { Unroll<kVectors>([&](auto v) { sums[r][v] = Lanes::Zero(); }); });
  const char* line = reinterpret_cast<const char*>(soon);
  for (; k > 0; --k, ++a, b += kWinogradColumns) {
    Lanes columns[kVectors];
    Unroll<kVectors>([&](auto v) { columns[v] = Lanes::Load(b + v * kWidth); });
    // A step that needs more than a cache line leaves the rest to the hardware prefetcher.
    __builtin_prefetch(line, 0, 2);
    line += soon_step;
    Unroll<rows>([&](auto r) {
      const Lanes row = Lanes::Broadcast(a[r * lda]);
      Unroll<kVectors>([&](auto v) { sums[r][v] = Fma(row, columns[v], sums[r][v]); });
    });
  }
  Unroll<rows>([&](auto r) {
    Unroll<kVectors>([&](auto v) {
      Element* to = c + r * ldc + v * kWidth;
      if constexpr (adds) sums[r][v] = sums[r][v] + Lanes::Load(to);
      sums[r][v].Store(to);
    });
  });
}

template <int rows>
inline void MultiplySome(const Element* a, int64_t lda, int64_t k, const Element* b, Element* c,
                         int64_t ldc, const Element* soon, int64_t soon_step) {
  const int64_t first = k < kMostSteps ? k : kMostSteps;
  MultiplySteps<rows, false>(a, lda, first, b, c, ldc, soon, soon_step);
  if constexpr (kMostSteps < INT64_MAX) {
    for (int64_t done = first; done < k; done += kMostSteps) {
      const int64_t now = k - done < kMostSteps ? k - done : kMostSteps;
      MultiplySteps<rows, true>(a + done, lda, now, b + done * kWinogradColumns, c, ldc,
                                soon + done * soon_step / static_cast<int64_t>(sizeof(Element)),
                                soon_step);
    }
  }
}

}  // namespace oort::OORT_ISA

#endif

namespace oort::OORT_ISA {

using MultiplyFunction = void (*)(const Element*, int64_t, int64_t, const Element*, Element*,
                                  int64_t, const Element*, int64_t);

template <int... i>
MultiplyFunction MultiplyFor(int rows, std::integer_sequence<int, i...>) {
  static constexpr MultiplyFunction kTable[] = {MultiplySome<i + 1>...};
  return kTable[rows - 1];
}

inline void MultiplyRows(int rows, const Element* a, int64_t lda, int64_t k, const Element* b,
                         Element* c, int64_t ldc, const Element* soon, int64_t soon_step) {
  constexpr auto kRows = std::make_integer_sequence<int, kWinogradRows>{};
  MultiplyFor(rows, kRows)(a, lda, k, b, c, ldc, soon, soon_step);
}

/// Tiles in equal portions of at most kWinogradRows: a short last one would waste registers.
inline void MultiplyTiles(const WinogradProductOf<Element>& p) {
  const int64_t pieces = (p.tiles + kWinogradRows - 1) / kWinogradRows;
  const int64_t rows = p.tiles / pieces, longer = p.tiles - rows * pieces;
  constexpr int64_t kItem = sizeof(Element);
  const Element* v = p.v;
  Element* m = p.m;
  // The next panel is prefetched while this one is used. A panel that is used only once ends too
  // soon for that, so its own rows are prefetched instead.
  const Element* soon = pieces == 1 ? p.u + 256 : p.soon;
  const int64_t soon_step = (kWinogradColumns * kItem + pieces - 1) / pieces;  // bytes a step of k
  for (int64_t i = 0; i < pieces; ++i) {
    const int64_t count = rows + (i < longer ? 1 : 0);
    MultiplyRows(static_cast<int>(count), v, p.v_row, p.k, p.u, m, p.m_row, soon, soon_step);
    soon += p.k * soon_step / kItem;
    v += count * p.v_row;
    m += count * p.m_row;
  }
}

}  // namespace oort::OORT_ISA

#endif
