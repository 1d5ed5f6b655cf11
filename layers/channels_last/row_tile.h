// SPDX-License-Identifier: MIT
// A few pixels of a convolution times one panel of filters, in registers. Only for
// row_conv.simd.cpp. ComputeRows<vectors> gives all kRowsOf<vectors> rows of so many vectors, and,
// where kAnyRows is set, ComputeSome<vectors> fewer rows and, where kMasked is set, lanes.
// ComputeTiles, where kInnerTiles is set, gives many tiles of kTileVectors one after another:
// `skip` pointers lie between the last tap of one and the first of the next. It reads the pointers
// of one more, and rows up to a multiple of four floats.
#pragma once

#include "cpu/activation_epilogue.h"
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
  int lanes = Vec::kWidth;  ///< of the last vector that are wanted, where kMasked is set
  int64_t ahead = 0;        ///< floats from a row of the weights to what is fetched at its step
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
/// Half of the columns leave registers for twice the pixels.
template <int vectors>
inline constexpr int kRowsOf = 2 * vectors <= kTileVectors ? 2 * kTileRows : kTileRows;
inline constexpr bool kInnerTiles = false, kAnyRows = true;
/// With masks a partial vector costs what a whole one does.
inline constexpr bool kMasked = Vec::kWidth >= 16;
inline void ComputeTiles(const RowTile&, int64_t, int64_t) {}

template <int vectors>
[[gnu::always_inline]] inline Vec LoadColumns(const float* p, int v, int lanes) {
  if (kMasked && v == vectors - 1) return Vec::LoadPartial(p + v * Vec::kWidth, lanes);
  return Vec::Load(p + v * Vec::kWidth);
}
template <int vectors>
[[gnu::always_inline]] inline void StoreColumns(Vec x, float* p, int v, int lanes) {
  if (kMasked && v == vectors - 1) return x.StorePartial(p + v * Vec::kWidth, lanes);
  x.Store(p + v * Vec::kWidth);
}

template <int vectors, int rows>
void ComputeRowsOf(const RowTile& tile) {
  Vec sums[rows][vectors];
  Unroll<vectors>([&](auto v) {
    const Vec bias = Vec::Load(tile.bias + v * Vec::kWidth);
    Unroll<rows>([&](auto r) { sums[r][v] = bias; });
  });
  const float* b = tile.weights;
  const int64_t ahead = tile.ahead;
  for (int64_t tap = 0; tap < tile.taps; ++tap) {
    const float* a[rows];
    Unroll<rows>([&](auto r) {
      const float* const* from = r < kTileRows ? tile.rows : tile.more_rows;
      a[r] = from[tap * kTileRows + r % kTileRows] + tile.offset;
    });
    for (int64_t k = 0; k < tile.depth; ++k, b += vectors * Vec::kWidth) {
      Vec columns[vectors];
      Unroll<vectors>([&](auto v) { columns[v] = Vec::Load(b + v * Vec::kWidth); });
      __builtin_prefetch(b + ahead, 0, 2);
      Unroll<rows>([&](auto r) {
        const Vec row = Vec::Broadcast(a[r][k]);
        Unroll<vectors>([&](auto v) { sums[r][v] = Fma(row, columns[v], sums[r][v]); });
      });
    }
  }
  const int lanes = tile.lanes;
  if (tile.addend != nullptr) {
    const float* addend = tile.addend;
    Unroll<rows>([&](auto r) {
      Unroll<vectors>(
          [&](auto v) { sums[r][v] = sums[r][v] + LoadColumns<vectors>(addend, v, lanes); });
      addend += tile.stride;
    });
  }
  if (tile.clamp) {
    const Vec low = Vec(tile.low), high = Vec(tile.high);
    Unroll<rows>([&](auto r) {
      Unroll<vectors>([&](auto v) { sums[r][v] = Limit(sums[r][v], low, high); });
    });
  }
  float* out = tile.out;
  Unroll<rows>([&](auto r) {
    Unroll<vectors>([&](auto v) { StoreColumns<vectors>(sums[r][v], out, v, lanes); });
    out += tile.stride;
  });
}

template <int vectors>
inline void ComputeRows(const RowTile& tile) {
  ComputeRowsOf<vectors, kRowsOf<vectors> >(tile);
}

template <int vectors, int... r>
inline void ComputeSomeOf(const RowTile& tile, int64_t rows, std::integer_sequence<int, r...>) {
  static constexpr void (*kTable[])(const RowTile&) = {ComputeRowsOf<vectors, r + 1>...};
  kTable[rows - 1](tile);
}
template <int vectors>
inline void ComputeSome(const RowTile& tile, int64_t rows) {
  ComputeSomeOf<vectors>(tile, rows, std::make_integer_sequence<int, kRowsOf<vectors> >{});
}

}  // namespace oort::OORT_ISA

#endif
