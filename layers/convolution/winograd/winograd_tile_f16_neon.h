// SPDX-License-Identifier: MIT
// The products of winograd_tile.h in f16, in the tiles that row_block_f16_neon.h uses. Through
// winograd_tile.h only.
#pragma once

#include "layers/convolution/direct/f16_rows_neon.h"
#include "layers/convolution/winograd/winograd_kernels.h"

namespace oort::OORT_ISA {

inline constexpr int kWinogradRows = kHalfRows, kWinogradColumns = kHalfColumns;

/// Some tiles, whose rows are at `rows`, and one piece of k after another.
inline void MultiplyHalfPieces(const WinogradProductOf<Half>& p, const Half* const* rows,
                               int64_t tiles, Half* m) {
  const int64_t parts = (p.k + kMostSteps - 1) / kMostSteps;
  const int64_t most = ((p.k + parts - 1) / parts + 7) / 8 * 8;
  const int64_t whole = tiles / kHalfRows, rest = tiles % kHalfRows;
  HalfTile tile;
  tile.taps = 1;
  tile.bias = kHalfZeros;
  tile.stride = p.m_row;
  for (; tile.offset < p.k; tile.offset += most) {
    tile.depth = p.k - tile.offset < most ? p.k - tile.offset : most;
    tile.weights = p.u + tile.offset * kHalfColumns;
    tile.rows = rows;
    tile.out = m;
    tile.addend = tile.offset == 0 ? nullptr : m;
    if (whole > 0) MultiplyHalfTiles<kHalfVectors>(tile, whole, 0);
    if (rest == 0) continue;
    tile.rows += whole * kHalfRows;
    tile.out += whole * kHalfRows * p.m_row;
    if (tile.addend != nullptr) tile.addend = tile.out;
    MultiplyHalfRows<kHalfVectors>(tile, static_cast<int>(rest), kHalfColumns);
  }
}

/// `soon` is not prefetched, because rows of f16 are short and the hardware prefetcher keeps up.
inline void MultiplyTiles(const WinogradProductOf<Half>& p) {
  constexpr int64_t kMost = 8 * kHalfRows;
  const Half* rows[kMost + kHalfRows];
  for (int64_t first = 0; first < p.tiles; first += kMost) {
    const int64_t tiles = p.tiles - first < kMost ? p.tiles - first : kMost;
    // The tile behind the last repeats its last row.
    for (int64_t i = 0; i < tiles + kHalfRows; ++i) {
      rows[i] = p.v + (first + (i < tiles ? i : tiles - 1)) * p.v_row;
    }
    MultiplyHalfPieces(p, rows, tiles, p.m + first * p.m_row);
  }
}

}  // namespace oort::OORT_ISA
