// SPDX-License-Identifier: MIT
// Tiles of row_tile_f16.h of which not all rows or columns are wanted.
// Only for row_block_f16_neon.h and winograd_tile_f16_neon.h.
#pragma once

#include "cpu/lanes.h"
#include "cpu/unroll.h"
#include "layers/convolution/direct/row_tile_f16.h"

namespace oort::OORT_ISA {

/// Computes one pixel. Its few sums are split into four parts each, so that additions do not wait
/// for each other. The time goes into reading the weights.
template <int vectors>
void MultiplyHalfRow(const HalfTile& tile) {
  constexpr int kStep = HalfVec::kWidth, kParts = 4;
  HalfVec sums[kParts][vectors];
  Unroll<kParts>([&](auto p) { Unroll<vectors>([&](auto v) { sums[p][v] = HalfVec::Zero(); }); });
  const Half* b = tile.weights;
  for (int64_t tap = 0; tap < tile.taps; ++tap) {
    const Half* a = tile.rows[tap * kHalfRows] + tile.offset;
    int64_t left = tile.depth;
    for (; left >= kStep; left -= kStep, a += kStep, b += kStep * vectors * kStep) {
      const HalfVec x = HalfVec::Load(a);
      Unroll<kStep>([&](auto k) {
        Unroll<vectors>([&](auto v) {
          HalfVec& sum = sums[k % kParts][v];
          sum = FmaLane<decltype(k)::value>(HalfVec::Load(b + (k * vectors + v) * kStep), x, sum);
        });
      });
    }
    for (; left > 0; --left, ++a, b += vectors * kStep) {
      const HalfVec x = HalfVec::Broadcast(*a);
      Unroll<vectors>(
          [&](auto v) { sums[0][v] = Fma(HalfVec::Load(b + v * kStep), x, sums[0][v]); });
    }
  }
  Unroll<vectors>([&](auto v) {
    HalfVec y = (sums[0][v] + sums[1][v]) + (sums[2][v] + sums[3][v]);
    y = y + HalfVec::Load(tile.bias + v * kStep);
    if (tile.addend != nullptr) y = y + HalfVec::Load(tile.addend + v * kStep);
    if (tile.activation == Activation::kHardswish) {
      y = Activate<Activation::kHardswish>(y, y, y);
    } else if (tile.activation != Activation::kNone) {
      y = Min(Max(y, HalfVec::Load(tile.limits)), HalfVec::Load(tile.limits + kStep));
    }
    y.Store(tile.out + v * kStep);
  });
}

inline void CopyHalves(const Half* from, Half* to, int count) {
  int i = 0;
  for (; i + HalfVec::kWidth <= count; i += HalfVec::kWidth) HalfVec::Load(from + i).Store(to + i);
  if (i < count) HalfVec::LoadPartial(from + i, count - i).StorePartial(to + i, count - i);
}

/// Computes a whole tile into a buffer and copies the `rows` rows and `columns` columns that are
/// wanted.
template <int vectors>
void MultiplyHalfBeside(HalfTile tile, int rows, int columns) {
  constexpr int kColumns = vectors * HalfVec::kWidth;
  alignas(64) Half sums[kHalfRows * kColumns], addends[kHalfRows * kColumns];
  const HalfTile wanted = tile;
  tile.out = sums;
  tile.stride = kColumns;
  if (wanted.addend != nullptr) {
    tile.addend = addends;
    for (int r = 0; r < rows; ++r) {
      CopyHalves(wanted.addend + r * wanted.stride, addends + r * kColumns, columns);
    }
  }
  if (rows == 1) {
    MultiplyHalfRow<vectors>(tile);
  } else {
    MultiplyHalfTile<vectors>(tile);
  }
  for (int r = 0; r < rows; ++r) {
    CopyHalves(sums + r * kColumns, wanted.out + r * wanted.stride, columns);
  }
}

/// The first `rows` rows and `columns` columns of a tile.
template <int vectors>
inline void MultiplyHalfRows(const HalfTile& tile, int rows, int columns) {
  const bool whole = columns == vectors * HalfVec::kWidth;
  if (whole && rows == kHalfRows) {
    MultiplyHalfTile<vectors>(tile);
  } else if (whole && rows == 1) {
    MultiplyHalfRow<vectors>(tile);
  } else {
    MultiplyHalfBeside<vectors>(tile, rows, columns);
  }
}

}  // namespace oort::OORT_ISA
