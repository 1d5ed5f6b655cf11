// SPDX-License-Identifier: MIT
// Products of bf16 on AMX: four tiles of 16 x 16 sums, two of 16 rows of A with 32 steps of k, two
// of 16 columns of B with pairs of steps side by side. Only for gemm.bf16.cpp.
#pragma once

#include <immintrin.h>

#include "cpu/gemm.h"
#include "cpu/gemm_bf16_pairs.h"

namespace oort::OORT_ISA {

inline constexpr int kUnitRows = 32, kUnitColumns = 32, kUnitDepth = 512;
inline constexpr int kUnitK = 32, kUnitGroupA = 32, kUnitGroupB = 2;

/// The operand of LDTILECFG: eight tiles of 16 rows of 64 bytes.
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfig) == 64);

inline void BeginTiles() {
  static constexpr TileConfig kConfig;
  _tile_loadconfig(&kConfig);
}
/// Without it every switch of threads would save eight KiB.
inline void EndTiles() { _tile_release(); }
inline constexpr void (*kUnitBegin)() = BeginTiles;
inline constexpr void (*kUnitEnd)() = EndTiles;

/// Tiles 0 to 3 are sums, 4 and 5 of A, 6 and 7 of B; `lower` and `right` tell whether the second
/// half of the rows and of the columns is needed.
template <bool lower, bool right>
inline void TileProduct(int64_t k, const uint16_t* a, const uint16_t* b, float* sums) {
  constexpr int kRow = 64, kPairs = 2 * 2 * kUnitColumns, kSums = sizeof(float) * kUnitColumns;
  _tile_zero(0);
  if constexpr (right) _tile_zero(1);
  if constexpr (lower) _tile_zero(2);
  if constexpr (lower && right) _tile_zero(3);
  for (; k > 0; k -= kUnitK, a += kUnitK * kUnitRows, b += kUnitK * kUnitColumns) {
    _tile_loadd(4, a, kRow);
    _tile_loadd(6, b, kPairs);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (right) {
      _tile_loadd(7, b + 32, kPairs);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (lower) {
      _tile_loadd(5, a + 16 * 32, kRow);
      _tile_dpbf16ps(2, 5, 6);
    }
    if constexpr (lower && right) _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, sums, kSums);
  if constexpr (right) _tile_stored(1, sums + 16, kSums);
  if constexpr (lower) _tile_stored(2, sums + 16 * kUnitColumns, kSums);
  if constexpr (lower && right) _tile_stored(3, sums + 16 * kUnitColumns + 16, kSums);
}

/// sums[rows][kUnitColumns] of a tile.
inline void UnitProduct(const GemmTile& tile, float* sums) {
  const uint16_t* a = static_cast<const uint16_t*>(tile.a);
  const uint16_t* b = static_cast<const uint16_t*>(tile.b);
  const bool lower = tile.rows > 16, right = tile.columns > 16;
  if (lower && right) return TileProduct<true, true>(tile.k, a, b, sums);
  if (lower) return TileProduct<true, false>(tile.k, a, b, sums);
  if (right) return TileProduct<false, true>(tile.k, a, b, sums);
  TileProduct<false, false>(tile.k, a, b, sums);
}

template <int width, int group>
inline void UnitGemv(int64_t k, const uint16_t* panel, const float* x, float* total) {
  if constexpr (group == 2) return GemvPairs<width>(k, panel, x, total);
  // Of rows of 32 steps: a sum for each row.
  __m512 sums[width];
  for (int i = 0; i < width; ++i) sums[i] = _mm512_setzero_ps();
  for (; k > 0; k -= group, x += group) {
    const __m512 low = _mm512_loadu_ps(x), high = _mm512_loadu_ps(x + 16);
    for (int i = 0; i < width; ++i, panel += group) {
      const __m512i both = _mm512_loadu_si512(panel);
      const __m256i first = _mm512_castsi512_si256(both);
      const __m256i second = _mm512_extracti64x4_epi64(both, 1);
      sums[i] = _mm512_fmadd_ps(WidenBf16(first), low, sums[i]);
      sums[i] = _mm512_fmadd_ps(WidenBf16(second), high, sums[i]);
    }
  }
  for (int i = 0; i < width; ++i) total[i] = _mm512_reduce_add_ps(sums[i]);
}

/// Steps of k in [from, to) of one row of A, behind `first` of the panel.
inline void PackRowOfA(const float* row, int64_t first, int64_t from, int64_t to, int width,
                       int index, uint16_t* panel) {
  for (int64_t k = from; k < to;) {
    const int64_t at = first + k, inside = at % kUnitGroupA;
    int64_t count = kUnitGroupA - inside;
    if (count > to - k) count = to - k;
    if (count > 16) count = 16;
    const __mmask16 mask = static_cast<__mmask16>((1u << count) - 1u);
    const __m256i values = RoundVector(_mm512_maskz_loadu_ps(mask, row + k));
    uint16_t* to_row = panel + (at / kUnitGroupA * width + index) * kUnitGroupA + inside;
    _mm256_mask_storeu_epi16(to_row, mask, values);
    k += count;
  }
}

/// Whole groups: k in [from, to) of the rows, to a panel that begins at `from`.
inline void UnitPackGroups(const float* const* rows, int count, int64_t from, int64_t to,
                           GemmSide side, int width, uint16_t* panel) {
  if (side == GemmSide::kB) return PackPairGroups(rows, count, from, to, width, panel);
  for (int64_t k = from; k < to; k += kUnitGroupA) {
    for (int i = 0; i < width; ++i, panel += kUnitGroupA) {
      __m256i low = _mm256_setzero_si256(), high = low;
      if (i < count) {
        low = RoundVector(_mm512_loadu_ps(rows[i] + k));
        high = RoundVector(_mm512_loadu_ps(rows[i] + k + 16));
      }
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(panel), low);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(panel + 16), high);
    }
  }
}

/// Less than a group, of which A's are long: k in [from, to), behind `first` of the panel.
inline bool UnitPackEnds(const float* const* rows, int count, int64_t from, int64_t to,
                         int64_t first, const PanelPart& part) {
  if (part.side == GemmSide::kB) return false;
  uint16_t* panel = static_cast<uint16_t*>(part.panel);
  alignas(64) static constexpr float kZeros[kUnitGroupA] = {};
  for (int i = 0; i < part.width && from < to; ++i) {
    const float* row = i < count ? rows[i] + from : kZeros;
    PackRowOfA(row, first + from, 0, to - from, part.width, i, panel);
  }
  return true;
}

}  // namespace oort::OORT_ISA
