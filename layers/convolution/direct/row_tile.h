// SPDX-License-Identifier: MIT
// A few pixels of a convolution times one panel of filters, in registers. Only for row_block.h.
//
// ComputeRows<vectors> computes kRowsOf<vectors> pixels by so many vectors of filters.
// ComputeSome<vectors> computes fewer pixels, where kAnyRows is set, and takes a partial last
// vector, where kMasked is set. ComputeTiles, where kInnerTiles is set, computes many tiles of
// kTileVectors one after another: `skip` pointers lie between the last tap of one tile and the
// first of the next. It reads the pointers of one tile more, and rows up to a multiple of four
// floats.
#pragma once

#include "cpu/lanes.h"
#include "cpu/unroll.h"
#include "layers/convolution/direct/direct_conv_kernels.h"

namespace oort::OORT_ISA {

/// The first kTileRows pixels read at rows[tap * kTileRows + r], as many more at more_rows.
struct RowTile {
  const Element* const* rows = nullptr;
  const Element* const* more_rows = nullptr;
  int64_t offset = 0;  ///< floats behind each of the pointers
  int64_t taps = 0, depth = 0;
  const Element* weights = nullptr;
  const Element* bias = nullptr;
  const Element* addend = nullptr;
  Element* out = nullptr;
  int64_t stride = 0;  ///< of addend and out
  bool clamp = false;
  float low = 0, high = 0;
  int lanes = Lanes::kWidth;  ///< of the last vector that are wanted, where kMasked is set
  int64_t ahead = 0;          ///< floats from a row of the weights to what is fetched at its step
};

#if defined(OORT_ISA_neon)
inline constexpr int kTileRows = 5, kTileVectors = 4, kTileColumns = 16, kTileGranule = 8;
template <int vectors>
inline constexpr int kRowsOf = vectors == 2 ? 10 : 5;  // twenty sums in both cases
inline constexpr bool kInnerTiles = true, kAnyRows = false, kMasked = false;
#else
#if defined(OORT_UNIT_avx512_f16)
inline constexpr int kTileRows = 12, kTileVectors = 2;
#elif defined(OORT_ISA_avx512)
inline constexpr int kTileRows = 6, kTileVectors = 4;
#elif defined(OORT_ISA_avx2)
inline constexpr int kTileRows = 6, kTileVectors = 2;
#else
inline constexpr int kTileRows = 4, kTileVectors = 2;
#endif
inline constexpr int kTileColumns = kTileVectors * Lanes::kWidth, kTileGranule = Lanes::kWidth;
/// Half of the columns leave registers for twice the pixels, but twelve are enough.
template <int vectors>
inline constexpr int kRowsOf =
    kTileRows < 12 && 2 * vectors <= kTileVectors ? 2 * kTileRows : kTileRows;
inline constexpr bool kInnerTiles = false, kAnyRows = true;
/// With masks a partial vector costs what a whole one does.
inline constexpr bool kMasked = Lanes::kWidth >= 16;
#endif

template <int vectors>
[[gnu::always_inline]] inline Lanes LoadColumns(const Element* p, int v, int lanes) {
  if (kMasked && v == vectors - 1) return Lanes::LoadPartial(p + v * Lanes::kWidth, lanes);
  return Lanes::Load(p + v * Lanes::kWidth);
}
template <int vectors>
[[gnu::always_inline]] inline void StoreColumns(Lanes x, Element* p, int v, int lanes) {
  if (kMasked && v == vectors - 1) return x.StorePartial(p + v * Lanes::kWidth, lanes);
  x.Store(p + v * Lanes::kWidth);
}

/// Steps of k for which the pointer to a row is read once: twelve of them have no room in the
/// registers.
template <int vectors, int rows>
inline constexpr int kStepsOf = rows < 8                              ? 1
                                : (31 - rows * vectors) / vectors < 4 ? 2
                                                                      : 4;

/// Adds `steps` steps of k from `k` on to the sums.
template <int steps, int vectors, int rows>
[[gnu::always_inline]] inline void AddSteps(const Element* const (&a)[rows], int64_t k,
                                            const Element* b, Lanes (&sums)[rows][vectors]) {
  Lanes columns[steps][vectors];
  Unroll<steps * vectors>(
      [&](auto i) { columns[i / vectors][i % vectors] = Lanes::Load(b + i * Lanes::kWidth); });
  Unroll<rows>([&](auto r) {
    Unroll<steps>([&](auto s) {
      const Lanes row = Lanes::Broadcast(a[r][k + s]);
      Unroll<vectors>([&](auto v) { sums[r][v] = Fma(row, columns[s][v], sums[r][v]); });
    });
  });
}

template <int vectors, int rows>
void ComputeRowsOf(const RowTile& tile) {
  Lanes sums[rows][vectors];
  Unroll<vectors>([&](auto v) {
    const Lanes bias = Lanes::Load(tile.bias + v * Lanes::kWidth);
    Unroll<rows>([&](auto r) { sums[r][v] = bias; });
  });
  const Element* b = tile.weights;
  const int64_t ahead = tile.ahead, depth = tile.depth;
  for (int64_t tap = 0; tap < tile.taps; ++tap) {
    const Element* a[rows];
    Unroll<rows>([&](auto r) {
      const Element* const* from = r < kTileRows ? tile.rows : tile.more_rows;
      a[r] = from[tap * kTileRows + r % kTileRows] + tile.offset;
    });
    constexpr int kSteps = kStepsOf<vectors, rows>, kStep = vectors * Lanes::kWidth;
    int64_t k = 0;
    for (; k + kSteps <= depth; k += kSteps, b += kSteps * kStep) {
      // Not in a lambda: GCC drops calls of what does nothing but fetch.
      for (int s = 0; s < kSteps; ++s) __builtin_prefetch(b + ahead + s * kStep, 0, 2);
      AddSteps<kSteps>(a, k, b, sums);
    }
    if constexpr (kSteps > 1) {
      for (; k < depth; ++k, b += kStep) AddSteps<1>(a, k, b, sums);
    }
  }
  const int lanes = tile.lanes;
  if (tile.addend != nullptr) {
    const Element* addend = tile.addend;
    Unroll<rows>([&](auto r) {
      Unroll<vectors>(
          [&](auto v) { sums[r][v] = sums[r][v] + LoadColumns<vectors>(addend, v, lanes); });
      addend += tile.stride;
    });
  }
  if (tile.clamp) {
    const Lanes low = Lanes(tile.low), high = Lanes(tile.high);
    Unroll<rows>([&](auto r) {
      Unroll<vectors>([&](auto v) { sums[r][v] = Limit(sums[r][v], low, high); });
    });
  }
  Element* out = tile.out;
  Unroll<rows>([&](auto r) {
    Unroll<vectors>([&](auto v) { StoreColumns<vectors>(sums[r][v], out, v, lanes); });
    out += tile.stride;
  });
}

}  // namespace oort::OORT_ISA

#if defined(OORT_ISA_neon)
#include "cpu/assembly_neon.h"
#endif
#if defined(OORT_ISA_neon) && OORT_HAS_ASSEMBLY
#include "layers/convolution/direct/row_tile_neon.h"
#else
namespace oort::OORT_ISA {

template <int vectors>
inline void ComputeRows(const RowTile& tile) {
  ComputeRowsOf<vectors, kRowsOf<vectors> >(tile);
}

inline void ComputeTiles([[maybe_unused]] RowTile tile, [[maybe_unused]] int64_t tiles,
                         [[maybe_unused]] int64_t skip) {
  if constexpr (kInnerTiles) {
    for (; tiles > 0; --tiles) {
      ComputeRows<kTileVectors>(tile);
      tile.rows += tile.taps * kTileRows + skip;
      tile.out += kTileRows * tile.stride;
      if (tile.addend != nullptr) tile.addend += kTileRows * tile.stride;
    }
  }
}

}  // namespace oort::OORT_ISA
#endif

namespace oort::OORT_ISA {

template <int vectors, int... r>
inline void ComputeSomeOf(const RowTile& tile, int64_t rows, std::integer_sequence<int, r...>) {
  static constexpr void (*kTable[])(const RowTile&) = {ComputeRowsOf<vectors, r + 1>...};
  kTable[rows - 1](tile);
}
template <int vectors>
inline void ComputeSome([[maybe_unused]] const RowTile& tile, [[maybe_unused]] int64_t rows) {
  if constexpr (kAnyRows) {
    ComputeSomeOf<vectors>(tile, rows, std::make_integer_sequence<int, kRowsOf<vectors> >{});
  }
}

}  // namespace oort::OORT_ISA
