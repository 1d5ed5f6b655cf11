// SPDX-License-Identifier: MIT
// Products of bf16 on AMX: four tiles of 16 x 16 sums, two of 16 rows of A with 32 steps of k, two
// of 16 columns of B with pairs of steps side by side. Only for gemm.bf16.cpp.
#pragma once

#include <immintrin.h>

#include "cpu/amx_tiles.h"
#include "cpu/gemm.h"
#include "cpu/gemm_bf16_pairs.h"
#include "cpu/gemm_finish.h"

namespace oort::OORT_ISA {

inline constexpr int kUnitRows = 32, kUnitColumns = 32, kUnitDepth = 512;
inline constexpr int kUnitK = 32, kUnitGroupA = 32, kUnitGroupB = 2;

inline constexpr void (*kUnitBegin)() = BeginTiles;
inline constexpr void (*kUnitEnd)() = EndTiles;

/// Of a packed panel of A: steps of 32 rows of 64 bytes.
inline void MultiplyTile(const GemmTile& tile, const TileSums& sums) {
  constexpr int64_t kStepOfA = 2 * kUnitK * kUnitRows;
  TileFactors factors;
  factors.upper = static_cast<const char*>(tile.a);
  factors.lower = factors.upper + kStepOfA / 2;
  factors.a_stride = 2 * kUnitK;
  factors.b = static_cast<const char*>(tile.b);
  factors.steps = tile.k / kUnitK;
  factors.soon = static_cast<const char*>(tile.soon);
  factors.soon_bytes = tile.soon_bytes;
  TileSums lower = sums;
  if (sums.from != nullptr) lower.from += 16 * (sums.from_stride / 4);
  lower.to += 16 * (sums.to_stride / 4);
  MultiplyTiles<Bf16Products>(factors, tile.rows > 16, tile.columns > 16, sums, lower,
                              [](int64_t step) { return step * kStepOfA; });
}

/// At most a row of a tile.
inline void CopyFloats(const float* from, int count, float* to) {
  for (int i = 0; i < count; i += 16) {
    const __mmask16 mask = static_cast<__mmask16>(count - i < 16 ? (1u << (count - i)) - 1u : ~0u);
    _mm512_storeu_ps(to + i, _mm512_maskz_loadu_ps(mask, from + i));
  }
}

/// Sums begin with what C holds or with the bias, so that they are the same wherever a row stands
/// in its tile. A tile that exists as a whole is loaded directly; a bias is loaded with a row
/// stride of 0 bytes.
inline void UnitTile(GemmTile tile) {
  alignas(64) float sums[kUnitRows * kUnitColumns];
  constexpr int64_t kFloat = sizeof(float), kStride = kFloat * kUnitColumns;
  TileSums to = {nullptr, 0, sums, kStride};
  const bool columns = tile.columns % 16 == 0, whole = columns && tile.rows % 16 == 0;
  if (tile.accumulate) {
    to.from = whole ? tile.c : sums;
    to.from_stride = whole ? tile.ldc * kFloat : kStride;
    for (int r = 0; r < tile.rows && !whole; ++r) {
      CopyFloats(tile.c + r * tile.ldc, tile.columns, sums + r * kUnitColumns);
    }
    tile.accumulate = false;
    tile.row_bias = tile.column_bias = nullptr;
  } else if (tile.column_bias != nullptr) {
    to.from = columns ? tile.column_bias : sums;
    if (!columns) CopyFloats(tile.column_bias, tile.columns, sums);
    tile.column_bias = nullptr;
  }
  const bool ended = tile.row_bias == nullptr && tile.addend == nullptr &&
                     tile.activation.kind == Activation::kNone;
  if (whole && ended) {
    to.to = tile.c;
    to.to_stride = tile.ldc * kFloat;
    return MultiplyTile(tile, to);
  }
  MultiplyTile(tile, to);
  Finish<kUnitColumns>(tile, sums);
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

/// Steps of k in [from, to) of one row of A, behind `first` of the panel, times a scale or not.
inline void PackRowOfA(const float* row, int64_t first, int64_t from, int64_t to,
                       const PanelPart& part, int index) {
  uint16_t* panel = static_cast<uint16_t*>(part.panel);
  for (int64_t k = from; k < to;) {
    const int64_t at = first + k, inside = at % kUnitGroupA;
    int64_t count = kUnitGroupA - inside;
    if (count > to - k) count = to - k;
    if (count > 16) count = 16;
    const __mmask16 mask = static_cast<__mmask16>((1u << count) - 1u);
    __m512 values = _mm512_maskz_loadu_ps(mask, row + k);
    if (part.scale != nullptr) {
      values = _mm512_mul_ps(values, _mm512_maskz_loadu_ps(mask, part.scale + k));
    }
    uint16_t* to_row = panel + (at / kUnitGroupA * part.width + index) * kUnitGroupA + inside;
    _mm256_mask_storeu_epi16(to_row, mask, RoundVector(values));
    k += count;
  }
}

/// 32 steps of all rows from k on, through `change`.
template <typename Change>
inline void PackGroupOfA(const float* const* rows, int count, int width, int64_t k, uint16_t* panel,
                         const Change& change) {
  const auto store = [](uint16_t* to, __m256i values) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), values);
  };
  for (int i = 0; i < count; ++i, panel += kUnitGroupA) {
    store(panel, RoundVector(change(_mm512_loadu_ps(rows[i] + k), 0)));
    store(panel + 16, RoundVector(change(_mm512_loadu_ps(rows[i] + k + 16), 1)));
  }
  for (int i = count; i < width; ++i, panel += kUnitGroupA) {
    _mm512_storeu_si512(panel, _mm512_setzero_si512());
  }
}

/// Whole groups: k in [from, to) of the rows, to a panel that begins at `from`.
inline void UnitPackGroups(const float* const* rows, int count, int64_t from, int64_t to,
                           const PanelPart& part, uint16_t* panel) {
  const int width = part.width;
  if (part.side == GemmSide::kB) return PackPairGroups(rows, count, from, to, width, panel);
  for (int64_t k = from; k < to; k += kUnitGroupA, panel += kUnitGroupA * width) {
    if (part.scale == nullptr) {
      PackGroupOfA(rows, count, width, k, panel, [](__m512 x, int) { return x; });
    } else {
      const __m512 scale[2] = {_mm512_loadu_ps(part.scale + k),
                               _mm512_loadu_ps(part.scale + k + 16)};
      PackGroupOfA(rows, count, width, k, panel,
                   [&](__m512 x, int half) { return _mm512_mul_ps(x, scale[half]); });
    }
  }
}

/// Packs less than a group, which matters because groups of A are long: k in [from, to), behind
/// `first` of the panel.
inline bool UnitPackEnds(const float* const* rows, int count, int64_t from, int64_t to,
                         int64_t first, const PanelPart& part) {
  if (part.side == GemmSide::kB) return false;
  alignas(64) static constexpr float kZeros[kUnitGroupA] = {};
  PanelPart scaled = part, zeros = part;  // zeros stay zeros: times a scale they may be -0
  if (part.scale != nullptr) scaled.scale += from;
  zeros.scale = nullptr;
  for (int i = 0; i < part.width && from < to; ++i) {
    const bool real = i < count;
    PackRowOfA(real ? rows[i] + from : kZeros, first + from, 0, to - from, real ? scaled : zeros,
               i);
  }
  return true;
}

}  // namespace oort::OORT_ISA
