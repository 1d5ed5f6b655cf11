// SPDX-License-Identifier: MIT
// A few pixels of a convolution times one panel of filters, in registers. Only for
// row_conv.simd.cpp. ComputeRows gives all kTileRows rows and kTileColumns columns.
#pragma once

#include "cpu/unroll.h"
#include "cpu/vec.h"
#include "layers/channels_last/row_conv_kernels.h"

#if defined(OORT_ISA_neon)
#include "layers/channels_last/row_tile_neon.h"
#else

namespace oort::OORT_ISA {

#if defined(OORT_ISA_avx512)
inline constexpr int kTileRows = 6, kTileVectors = 4;
#elif defined(OORT_ISA_avx2)
inline constexpr int kTileRows = 6, kTileVectors = 2;
#else
inline constexpr int kTileRows = 4, kTileVectors = 2;
#endif
inline constexpr int kTileColumns = kTileVectors * Vec::kWidth;

inline void ComputeRows(const RowTile& tile) {
  Vec sums[kTileRows][kTileVectors];
  Unroll<kTileRows>([&](auto r) {
    Unroll<kTileVectors>([&](auto v) { sums[r][v] = Vec::Load(tile.bias + v * Vec::kWidth); });
  });
  const float* b = tile.weights;
  const float* const* rows = tile.rows;
  for (int64_t tap = 0; tap < tile.taps; ++tap, rows += kTileRows) {
    const float* a[kTileRows];
    Unroll<kTileRows>([&](auto r) { a[r] = rows[r]; });
    for (int64_t k = 0; k < tile.depth; ++k, b += kTileColumns) {
      Vec columns[kTileVectors];
      Unroll<kTileVectors>([&](auto v) { columns[v] = Vec::Load(b + v * Vec::kWidth); });
      Unroll<kTileRows>([&](auto r) {
        const Vec row = Vec::Broadcast(a[r][k]);
        Unroll<kTileVectors>([&](auto v) { sums[r][v] = Fma(row, columns[v], sums[r][v]); });
      });
    }
  }
  if (tile.addend != nullptr) {
    Unroll<kTileRows>([&](auto r) {
      Unroll<kTileVectors>([&](auto v) {
        const float* addend = tile.addend + r * tile.addend_stride + v * Vec::kWidth;
        sums[r][v] = sums[r][v] + Vec::Load(addend);
      });
    });
  }
  if (tile.clamp) {
    Unroll<kTileRows>([&](auto r) {
      Unroll<kTileVectors>(
          [&](auto v) { sums[r][v] = Min(Max(sums[r][v], Vec(tile.low)), Vec(tile.high)); });
    });
  }
  Unroll<kTileRows>([&](auto r) {
    Unroll<kTileVectors>(
        [&](auto v) { sums[r][v].Store(tile.out + r * tile.out_stride + v * Vec::kWidth); });
  });
}

}  // namespace oort::OORT_ISA

#endif
