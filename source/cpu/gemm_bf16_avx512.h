// SPDX-License-Identifier: MIT
// Products of bf16 by VDPBF16PS, which adds two products to each sum. Only for gemm.bf16.cpp.
#pragma once

#include <immintrin.h>

#include "cpu/gemm.h"
#include "cpu/gemm_bf16_pairs.h"
#include "cpu/unroll.h"

namespace oort::OORT_ISA {

inline constexpr int kUnitRows = 14, kUnitColumns = 32, kUnitDepth = 512;
inline constexpr int kUnitK = 2, kUnitGroupA = 2, kUnitGroupB = 2;
inline constexpr void (*kUnitBegin)() = nullptr;
inline constexpr void (*kUnitEnd)() = nullptr;

template <int rows, int vectors>
inline void PairProduct(int64_t k, const uint16_t* a, const uint16_t* b, float* out) {
  __m512 sums[rows][vectors];
  Unroll<rows>([&](auto r) { Unroll<vectors>([&](auto v) { sums[r][v] = _mm512_setzero_ps(); }); });
  for (; k > 0; k -= 2, a += 2 * kUnitRows, b += 2 * kUnitColumns) {
    __m512i columns[vectors];
    Unroll<vectors>([&](auto v) { columns[v] = _mm512_loadu_si512(b + 32 * v); });
    Unroll<rows>([&](auto r) {
      int pair;
      __builtin_memcpy(&pair, a + 2 * r, sizeof(pair));
      const __m512i row = _mm512_set1_epi32(pair);
      Unroll<vectors>([&](auto v) {
        sums[r][v] = _mm512_dpbf16_ps(sums[r][v], __builtin_bit_cast(__m512bh, row),
                                      __builtin_bit_cast(__m512bh, columns[v]));
      });
    });
  }
  Unroll<rows>([&](auto r) {
    Unroll<vectors>([&](auto v) { _mm512_storeu_ps(out + r * kUnitColumns + 16 * v, sums[r][v]); });
  });
}

/// sums[rows][kUnitColumns] of a tile.
inline void UnitProduct(const GemmTile& tile, float* sums) {
  const uint16_t* a = static_cast<const uint16_t*>(tile.a);
  const uint16_t* b = static_cast<const uint16_t*>(tile.b);
  constexpr int kHalf = kUnitRows / 2;
  if (tile.rows <= kHalf && tile.columns <= 16) return PairProduct<kHalf, 1>(tile.k, a, b, sums);
  if (tile.rows <= kHalf) return PairProduct<kHalf, 2>(tile.k, a, b, sums);
  if (tile.columns <= 16) return PairProduct<kUnitRows, 1>(tile.k, a, b, sums);
  PairProduct<kUnitRows, 2>(tile.k, a, b, sums);
}

template <int width, int group>
inline void UnitGemv(int64_t k, const uint16_t* panel, const float* x, float* total) {
  static_assert(group == 2);
  GemvPairs<width>(k, panel, x, total);
}

inline void UnitPackGroups(const float* const* rows, int count, int64_t from, int64_t to,
                           const PanelPart& part, uint16_t* panel) {
  PackPairGroups(rows, count, from, to, part.width, panel);
}

inline bool UnitPackEnds(const float* const*, int, int64_t, int64_t, int64_t, const PanelPart&) {
  return false;
}

}  // namespace oort::OORT_ISA
