// SPDX-License-Identifier: MIT
// Products of bf16 by BFMMLA: 2 x 4 by 4 x 2 matrices. A panel holds four steps of k of a row (or
// column) side by side, so that two rows make one register. Only for gemm.bf16.cpp.
#pragma once

#include "cpu/gemm_bf16_tile_neon.h"

namespace oort::OORT_ISA {

inline constexpr int kUnitK = 4, kUnitGroupA = 4, kUnitGroupB = 4;
inline constexpr void (*kUnitBegin)() = nullptr;
inline constexpr void (*kUnitEnd)() = nullptr;

/// Writes two rows of sums from registers that hold 2 x 2 each.
template <int pairs>
inline void StoreTwoRows(const float32x4_t* sums, float* out) {
  Unroll<pairs / 2>([&](auto c) {
    const float64x2_t left = vreinterpretq_f64_f32(sums[2 * c]);
    const float64x2_t right = vreinterpretq_f64_f32(sums[2 * c + 1]);
    vst1q_f32(out + 4 * c, vreinterpretq_f32_f64(vzip1q_f64(left, right)));
    vst1q_f32(out + kUnitColumns + 4 * c, vreinterpretq_f32_f64(vzip2q_f64(left, right)));
  });
}

/// Fewer columns or rows than a whole tile, counted in pairs. `k` in steps of four.
template <int row_pairs, int column_pairs>
inline void PartProduct(int64_t k, const uint16_t* a, const uint16_t* b, float* out) {
  float32x4_t sums[row_pairs][column_pairs];
  Unroll<row_pairs>(
      [&](auto r) { Unroll<column_pairs>([&](auto c) { sums[r][c] = vdupq_n_f32(0); }); });
  for (; k > 0; --k, a += 4 * kUnitRows, b += 4 * kUnitColumns) {
    bfloat16x8_t rows[row_pairs];
    Unroll<row_pairs>([&](auto r) { rows[r] = LoadBf16(a + 8 * r); });
    Unroll<column_pairs>([&](auto c) {
      const bfloat16x8_t columns = LoadBf16(b + 8 * c);
      Unroll<row_pairs>([&](auto r) { sums[r][c] = vbfmmlaq_f32(sums[r][c], rows[r], columns); });
    });
  }
  Unroll<row_pairs>(
      [&](auto r) { StoreTwoRows<column_pairs>(sums[r], out + 2 * r * kUnitColumns); });
}

/// To sums[rows][kUnitColumns].
inline void WholeProduct(int64_t k, const uint16_t* a, const uint16_t* b, float* out) {
  alignas(16) static constexpr float kZeros[kUnitColumns] = {};
  if (k == 0) {
    for (int i = 0; i < kUnitRows * kUnitColumns; i += 4) vst1q_f32(out + i, vdupq_n_f32(0));
    return;
  }
  WholeTile tile;
  tile.k = 4 * k;
  tile.a = a;
  tile.b = b;
  tile.init = kZeros;
  tile.c = out;
  tile.ldc = kUnitColumns;
  tile.soon = a;
  UnitWhole(tile);
}

/// sums[rows][kUnitColumns] of a tile.
inline void UnitProduct(const GemmTile& tile, float* sums) {
  using Function = void (*)(int64_t, const uint16_t*, const uint16_t*, float*);
  static constexpr Function kFunctions[2][3] = {
      {PartProduct<2, 2>, PartProduct<2, 4>, PartProduct<2, 6>},
      {PartProduct<4, 2>, PartProduct<4, 4>, WholeProduct}};
  const int half = tile.rows <= kUnitRows / 2 ? 0 : 1, third = (tile.columns - 1) / 4;
  kFunctions[half][third](tile.k / 4, static_cast<const uint16_t*>(tile.a),
                          static_cast<const uint16_t*>(tile.b), sums);
}

template <int width, int group>
inline void UnitGemv(int64_t k, const uint16_t* panel, const float* x, float* total) {
  static_assert(group == 4 && width % 2 == 0);
  float32x4_t sums[width];
  Unroll<width>([&](auto i) { sums[i] = vdupq_n_f32(0); });
  for (; k > 0; k -= 4, x += 4, panel += 4 * width) {
    const float32x4_t factors = vld1q_f32(x);
    Unroll<width / 2>([&](auto i) {
      const uint16x8_t two = vld1q_u16(panel + 8 * i);
      const float32x4_t low = vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(two), 16));
      const float32x4_t high = vreinterpretq_f32_u32(vshll_high_n_u16(two, 16));
      sums[2 * i] = vfmaq_f32(sums[2 * i], low, factors);
      sums[2 * i + 1] = vfmaq_f32(sums[2 * i + 1], high, factors);
    });
  }
  Unroll<width>([&](auto i) { total[i] = vaddvq_f32(sums[i]); });
}

/// Four steps of k of `pairs` times two rows at a time.
template <int pairs>
inline void PackPairs(const float* const* rows, int64_t from, int64_t to, int width,
                      uint16_t* panel) {
  const float* row[2 * pairs];
  Unroll<2 * pairs>([&](auto i) { row[i] = rows[i]; });
  for (int64_t k = from; k < to; k += 4, panel += 4 * width) {
    Unroll<pairs>([&](auto i) {
      const bfloat16x8_t first = vcvtq_low_bf16_f32(vld1q_f32(row[2 * i] + k));
      const bfloat16x8_t both = vcvtq_high_bf16_f32(first, vld1q_f32(row[2 * i + 1] + k));
      vst1q_u16(panel + 8 * i, vreinterpretq_u16_bf16(both));
    });
  }
}

/// Whole groups: k in [from, to) of the rows, to a panel that begins at `from`.
inline void UnitPackGroups(const float* const* rows, int count, int64_t from, int64_t to,
                           const PanelPart& part, uint16_t* panel) {
  const int width = part.width;
  int i = 0;
  for (; i + 8 <= count; i += 8) PackPairs<4>(rows + i, from, to, width, panel + 4 * i);
  for (; i + 2 <= count; i += 2) PackPairs<1>(rows + i, from, to, width, panel + 4 * i);
  for (; i < width; ++i) {
    uint16_t* to_row = panel + 4 * i;
    for (int64_t k = from; k < to; k += 4, to_row += 4 * width) {
      const float32x4_t values = i < count ? vld1q_f32(rows[i] + k) : vdupq_n_f32(0);
      vst1_u16(to_row, vreinterpret_u16_bf16(vcvt_bf16_f32(values)));
    }
  }
}

/// Ends of groups take the plain code, because groups are short.
inline bool UnitPackEnds(const float* const*, int, int64_t, int64_t, int64_t, const PanelPart&) {
  return false;
}

}  // namespace oort::OORT_ISA
