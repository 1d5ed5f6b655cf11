// SPDX-License-Identifier: MIT
// A few pixels of a convolution times one panel of filters, in registers. Only for
// row_conv.simd.cpp. ComputeRows<vectors> gives all kRowsOf<vectors> rows of so many vectors.
// ComputeTiles, where kInnerTiles is set, gives many tiles of kTileVectors one after another:
// `skip` pointers lie between the last tap of one and the first of the next. It reads the pointers
// of one more, and rows up to a multiple of four floats.
#pragma once

#include "cpu/unroll.h"
#include "cpu/vec.h"
#include "layers/channels_last/row_conv_kernels.h"

namespace oort::OORT_ISA {

/// The first kTileRows pixels read at rows[tap * kTileRows + r], as many more at more_rows.
struct RowTile {
  const float* const* rows = nullptr;
  const float* const* more_rows = nullptr;
  int64_t offset = 0;  ///< floats behind each of the pointers
  int64_t taps = 0, depth = 0;
  const float* weights = nullptr;
  const float* bias = nullptr;
  const float* addend = nullptr;
  float* out = nullptr;
  int64_t stride = 0;  ///< of addend and out
  bool clamp = false;
  float low = 0, high = 0;
};

}  // namespace oort::OORT_ISA

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
inline constexpr int kTileColumns = kTileVectors * Vec::kWidth, kTileGranule = Vec::kWidth;
template <int vectors>
inline constexpr int kRowsOf = kTileRows;
inline constexpr bool kInnerTiles = false;
inline void ComputeTiles(const RowTile&, int64_t, int64_t) {}

template <int vectors>
inline void ComputeRows(const RowTile& tile) {
  Vec sums[kTileRows][vectors];
  Unroll<kTileRows>([&](auto r) {
    Unroll<vectors>([&](auto v) { sums[r][v] = Vec::Load(tile.bias + v * Vec::kWidth); });
  });
  const float* b = tile.weights;
  const float* const* rows = tile.rows;
  for (int64_t tap = 0; tap < tile.taps; ++tap, rows += kTileRows) {
    const float* a[kTileRows];
    Unroll<kTileRows>([&](auto r) { a[r] = rows[r] + tile.offset; });
    for (int64_t k = 0; k < tile.depth; ++k, b += vectors * Vec::kWidth) {
      Vec columns[vectors];
      Unroll<vectors>([&](auto v) { columns[v] = Vec::Load(b + v * Vec::kWidth); });
      Unroll<kTileRows>([&](auto r) {
        const Vec row = Vec::Broadcast(a[r][k]);
        Unroll<vectors>([&](auto v) { sums[r][v] = Fma(row, columns[v], sums[r][v]); });
      });
    }
  }
  if (tile.addend != nullptr) {
    Unroll<kTileRows>([&](auto r) {
      Unroll<vectors>([&](auto v) {
        sums[r][v] = sums[r][v] + Vec::Load(tile.addend + r * tile.stride + v * Vec::kWidth);
      });
    });
  }
  if (tile.clamp) {
    Unroll<kTileRows>([&](auto r) {
      Unroll<vectors>(
          [&](auto v) { sums[r][v] = Min(Max(sums[r][v], Vec(tile.low)), Vec(tile.high)); });
    });
  }
  Unroll<kTileRows>([&](auto r) {
    Unroll<vectors>(
        [&](auto v) { sums[r][v].Store(tile.out + r * tile.stride + v * Vec::kWidth); });
  });
}

}  // namespace oort::OORT_ISA

#endif
