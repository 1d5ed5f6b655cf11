// SPDX-License-Identifier: MIT
// The micro-kernel of a matrix product (BLIS): a tile of C in registers. Only for gemm.simd.cpp.
#pragma once

#include "cpu/gemm_whole_tile.h"
#include "cpu/unroll.h"
#include "cpu/vec.h"

#if defined(OORT_ISA_neon)
#include "cpu/gemm_tile_neon.h"
#else

namespace oort::OORT_ISA {

// Accumulators, the vectors of B and one broadcast element of A fill the registers: 16 on AVX2,
// 32 on AVX-512.
#if defined(OORT_ISA_avx512)
inline constexpr int kGemmRows = 14, kGemmVectors = 2, kGemmDepth = 256;
#elif defined(OORT_ISA_avx2)
inline constexpr int kGemmRows = 6, kGemmVectors = 2, kGemmDepth = 256;
#else
inline constexpr int kGemmRows = 4, kGemmVectors = 4, kGemmDepth = 256;
#endif
inline constexpr int kGemmColumns = kGemmVectors * Vec::kWidth;
inline constexpr int kLeastWholeRows = 1;  // a tile of few rows is as good as its registers
inline constexpr bool kAnyWidth = true;

/// Adds k steps of a panel of A and one of B to the sums; at each step a line of `soon` is fetched.
template <int rows, int vectors>
[[gnu::always_inline]] inline void MultiplyPanels(int64_t k, const float* a, int64_t a_width,
                                                  const float* b, const char* soon,
                                                  int64_t soon_step, Vec (&sums)[rows][vectors]) {
  for (; k > 0; --k) {
    Vec columns[vectors];
    Unroll<vectors>([&](auto v) { columns[v] = Vec::Load(b + v * Vec::kWidth); });
    __builtin_prefetch(soon, 0, 2);
    soon += soon_step;
    Unroll<rows>([&](auto r) {
      const Vec row = Vec::Broadcast(a[r]);
      Unroll<vectors>([&](auto v) { sums[r][v] = Fma(row, columns[v], sums[r][v]); });
    });
    a += a_width;
    b += kGemmColumns;
  }
}

template <int rows, int vectors>
void ComputeRows(const WholeTile& tile) {
  Vec sums[rows][vectors];
  const float* init = tile.init;
  Unroll<rows>([&](auto r) {
    Unroll<vectors>([&](auto v) { sums[r][v] = Vec::Load(init + v * Vec::kWidth); });
    init += tile.init_stride;
  });
  MultiplyPanels(tile.k, static_cast<const float*>(tile.a), tile.a_width,
                 static_cast<const float*>(tile.b), static_cast<const char*>(tile.soon),
                 tile.soon_step, sums);
  if (tile.addend != nullptr) {
    const float* addend = tile.addend;
    Unroll<rows>([&](auto r) {
      Unroll<vectors>(
          [&](auto v) { sums[r][v] = sums[r][v] + Vec::Load(addend + v * Vec::kWidth); });
      addend += tile.addend_stride;
    });
  }
  if (tile.clamp) {
    const Vec low = Vec(tile.low), high = Vec(tile.high);
    Unroll<rows>([&](auto r) {
      Unroll<vectors>([&](auto v) { sums[r][v] = Limit(sums[r][v], low, high); });
    });
  }
  float* c = tile.c;
  Unroll<rows>([&](auto r) {
    Unroll<vectors>([&](auto v) { sums[r][v].Store(c + v * Vec::kWidth); });
    c += tile.ldc;
  });
}

template <int vectors, int... r>
inline void ComputeRowsOf(const WholeTile& tile, std::integer_sequence<int, r...>) {
  static constexpr void (*kTable[])(const WholeTile&) = {ComputeRows<r + 1, vectors>...};
  kTable[tile.rows - 1](tile);
}
inline void ComputeTile(const WholeTile& tile) {
  Unroll<kGemmVectors>([&](auto v) {
    if (tile.vectors != v + 1) return;
    ComputeRowsOf<v + 1>(tile, std::make_integer_sequence<int, kGemmRows>{});
  });
}

/// Tiles that lack rows are like the others here.
inline bool ComputeFewRows(const GemmTile&) { return false; }

}  // namespace oort::OORT_ISA

#endif
