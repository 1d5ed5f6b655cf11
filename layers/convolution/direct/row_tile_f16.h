// SPDX-License-Identifier: MIT
// Six pixels by up to four vectors of filters in f16 on NEON, multiplying by lanes of the pixels.
// Only for f16_rows_neon.h.
//
// There are 24 registers for sums. Where a tile has fewer sums than that, each is made in two or
// four parts: an FMLA takes four cycles and four begin in each, so sixteen must be under way.
#pragma once

#include <cstdint>

#include "core/activation.h"
#include "cpu/assembly_neon.h"
#include "cpu/unroll.h"
#include "cpu/vec_f16.h"

namespace oort::OORT_ISA {

inline constexpr int kHalfRows = 6, kHalfVectors = 4, kHalfColumns = 32;
/// The bias of sums that have none.
alignas(64) inline constexpr Half kHalfZeros[kHalfColumns] = {};

/// What tiles can do to sums on their way out. The assembly tells them apart by bits.
constexpr bool HalfTileSupports(Activation activation) {
  return activation == Activation::kNone || activation == Activation::kRelu ||
         activation == Activation::kClamp || activation == Activation::kHardswish;
}
static_assert(static_cast<int>(Activation::kNone) == 0 &&
              static_cast<int>(Activation::kRelu) == 1 &&
              static_cast<int>(Activation::kClamp) == 2 &&
              static_cast<int>(Activation::kHardswish) == 4);

/// What pixel r of the tile reads at a tap are the `depth` elements at rows[tap * kHalfRows + r].
/// Nothing is read behind them; three vectors behind the weights are.
struct HalfTile {
  const Half* const* rows = nullptr;
  int64_t offset = 0;  ///< elements behind each of the pointers
  int64_t taps = 0, depth = 0;
  const Half* weights = nullptr;
  const Half* bias = nullptr;
  const Half* addend = nullptr;  ///< may be null
  Half* out = nullptr;
  int64_t stride = 0;                         ///< of addend and out
  Activation activation = Activation::kNone;  ///< one that HalfTileSupports
  const Half* limits = nullptr;  ///< vectors: the least, the most, and for kHardswish 1/6
};

/// All rows of a tile of so many vectors: out = limited(rows * weights + bias + addend).
template <int vectors>
void MultiplyHalfTile(const HalfTile& tile);
/// The same for tiles one behind another, of a depth that is a multiple of eight and not 0: `skip`
/// pointers lie between the last tap of one and the first of the next. The pointers of one tile
/// more are read, and the first channels of its pixels.
template <int vectors>
void MultiplyHalfTiles(const HalfTile& tile, int64_t tiles, int64_t skip);

}  // namespace oort::OORT_ISA

#if OORT_HAS_ASSEMBLY
#include "layers/convolution/direct/row_tile_f16_neon.h"
#else
namespace oort::OORT_ISA {

/// A sum on its way out.
inline HalfVec ActivateHalf(const HalfTile& tile, HalfVec x) {
  if (tile.activation == Activation::kNone) return x;
  const HalfVec least = HalfVec::Load(tile.limits), most = HalfVec::Load(tile.limits + 8);
  if (tile.activation == Activation::kRelu) return Max(x, least);
  if (tile.activation == Activation::kClamp) return Min(Max(x, least), most);
  return x * Min(Max(Fma(x, HalfVec::Load(tile.limits + 16), HalfVec(0.5f)), least), most);
}

/// Adds the products of the `depth` channels of a tap to the parts of the sums: channel k of each
/// eight goes to part k % parts, those behind the last eight to the first part.
template <int parts, int vectors>
const Half* AddTap(const Half* const (&rows)[kHalfRows], int64_t depth, const Half* weights,
                   HalfVec (&sums)[parts][kHalfRows][vectors]) {
  constexpr int kStep = HalfVec::kWidth;
  int64_t at = 0;
  for (; at + kStep <= depth; at += kStep, weights += kStep * vectors * kStep) {
    Unroll<kStep>([&](auto k) {
      Unroll<vectors>([&](auto v) {
        const HalfVec filters = HalfVec::Load(weights + (k * vectors + v) * kStep);
        Unroll<kHalfRows>([&](auto r) {
          HalfVec& sum = sums[k % parts][r][v];
          sum = FmaLane<decltype(k)::value>(filters, HalfVec::Load(rows[r] + at), sum);
        });
      });
    });
  }
  for (; at < depth; ++at, weights += vectors * kStep) {
    Unroll<vectors>([&](auto v) {
      const HalfVec filters = HalfVec::Load(weights + v * kStep);
      Unroll<kHalfRows>([&](auto r) {
        sums[0][r][v] = Fma(filters, HalfVec::Broadcast(rows[r][at]), sums[0][r][v]);
      });
    });
  }
  return weights;
}

template <int vectors>
void MultiplyHalfTile(const HalfTile& tile) {
  constexpr int kParts = vectors > 2 ? 1 : 4 / vectors;
  HalfVec sums[kParts][kHalfRows][vectors];
  Unroll<kHalfRows>([&](auto r) {
    Unroll<vectors>([&](auto v) {
      sums[0][r][v] = HalfVec::Load(tile.bias + v * HalfVec::kWidth);
      Unroll<kParts - 1>([&](auto p) { sums[p + 1][r][v] = HalfVec::Zero(); });
    });
  });
  const Half* weights = tile.weights;
  for (int64_t tap = 0; tap < tile.taps; ++tap) {
    const Half* rows[kHalfRows];
    Unroll<kHalfRows>([&](auto r) { rows[r] = tile.rows[tap * kHalfRows + r] + tile.offset; });
    weights = AddTap(rows, tile.depth, weights, sums);
  }
  Unroll<kHalfRows>([&](auto r) {
    Unroll<vectors>([&](auto v) {
      HalfVec sum = sums[0][r][v];
      if constexpr (kParts == 2) sum = sum + sums[1][r][v];
      if constexpr (kParts == 4) {
        sum = (sum + sums[1][r][v]) + (sums[2][r][v] + sums[3][r][v]);
      }
      const int64_t at = r * tile.stride + v * HalfVec::kWidth;
      if (tile.addend != nullptr) sum = sum + HalfVec::Load(tile.addend + at);
      ActivateHalf(tile, sum).Store(tile.out + at);
    });
  });
}

template <int vectors>
void MultiplyHalfTiles(const HalfTile& tile, int64_t tiles, int64_t skip) {
  HalfTile moved = tile;
  for (; tiles > 0; --tiles) {
    MultiplyHalfTile<vectors>(moved);
    moved.rows += tile.taps * kHalfRows + skip;
    moved.out += kHalfRows * tile.stride;
    if (moved.addend != nullptr) moved.addend += kHalfRows * tile.stride;
  }
}

}  // namespace oort::OORT_ISA
#endif
