// SPDX-License-Identifier: MIT
// Tiles of a few rows of x and of the weight. Only for byte_tile_kernels.h, behind a header
// byte_tile_*.h, which defines
//   kTileMostRows, kTileWidth  rows of x, and of the weight, at most
//   HasTileOf(rows)            whether there are tiles of so many rows
//   RowLanes<rows>             a number of each row, with Mul(v, row) and Fma(v, row, sum)
//   PieceProducts<V>(…)        the products of a piece of k, not yet scaled
#pragma once

#include "cpu/unroll.h"
#include "cpu/vec.h"
#include "layers/quantized_linear/cpu/byte_tile_variant.h"

namespace oort::OORT_ISA {

/// Rows [first, first + V::rows) of x, which lie in one block, times kTileWidth rows of the weight
/// from `column` on. All variants add in the order of the kernels of one row.
template <typename V>
void MultiplyTile(const ByteTiles& tiles, int zero, int first, int column) {
  const ByteNumbers numbers = V::NumbersOf(tiles.x);
  const ByteRows x = tiles.x;
  const int64_t groups = tiles.k / tiles.layout.group;
  const int pieces = V::single ? 1 : tiles.layout.group / V::piece;
  const int8_t* lines = tiles.panel.lines + 4 * column;
  const float* scales = tiles.panel.scales + column;
  const float* minimums = V::minimums ? tiles.panel.minimums + column : nullptr;
  int64_t at = x.number_at(first, 0);
  TileFloats<V::rows> totals;
  ForTile<V::rows>([&](auto r, auto c)
                       __attribute__((always_inline)) { totals[r][c] = Vec(0.0f); });
  for (int64_t g = 0; g < groups; ++g, scales += kPanelRows) {
    TileFloats<V::rows> partial;
    ForTile<V::rows>([&](auto r, auto c)
                         __attribute__((always_inline)) { partial[r][c] = Vec(0.0f); });
    float offsets[V::rows] = {};
    for (int p = 0; p < pieces; ++p, at += x.block, lines += V::piece * kPanelRows) {
      TileFloats<V::rows> products;
      PieceProducts<V>(lines, x, numbers, at, zero, products);
      const RowLanes<V::rows> scale(numbers.scale + at);
      ForTile<V::rows>([&](auto r, auto c) __attribute__((always_inline)) {
        partial[r][c] = V::single ? scale.template Mul<r>(products[r][c])
                                  : scale.template Fma<r>(products[r][c], partial[r][c]);
      });
      if constexpr (V::minimums && !V::single) {
        Unroll<V::rows>([&](auto r) __attribute__((always_inline)) {
          offsets[r] += numbers.offset[at + r];
        });
      }
    }
    if constexpr (V::minimums) {
      const RowLanes<V::rows> offset(V::single ? numbers.offset + at - x.block : offsets);
      ForTile<V::rows>([&](auto r, auto c) __attribute__((always_inline)) {
        totals[r][c] = offset.template Fma<r>(Vec::Load(minimums + c * Vec::kWidth), totals[r][c]);
      });
      minimums += kPanelRows;
    }
    ForTile<V::rows>([&](auto r, auto c) __attribute__((always_inline)) {
      totals[r][c] = Fma(partial[r][c], Vec::Load(scales + c * Vec::kWidth), totals[r][c]);
    });
  }
  float* y = tiles.y + first * tiles.y_stride + column;
  ForTile<V::rows>([&](auto r, auto c) __attribute__((always_inline)) {
    totals[r][c].Store(y + r * tiles.y_stride + c * Vec::kWidth);
  });
}

}  // namespace oort::OORT_ISA
