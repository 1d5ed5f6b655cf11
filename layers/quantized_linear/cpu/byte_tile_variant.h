// SPDX-License-Identifier: MIT
// What the tiles of all units have in common. Only for byte_tile_*.h.
#pragma once

#include "cpu/unroll.h"
#include "cpu/vec.h"
#include "layers/quantized_linear/cpu/byte_tiles.h"

namespace oort::OORT_ISA {

/// Rows of the weight in a tile.
#if defined(OORT_ISA_neon)
inline constexpr int kTileWidth = 8;
#else
inline constexpr int kTileWidth = kPanelRows;
#endif
inline constexpr int kTileVectors = kTileWidth / Vec::kWidth;

/// piece_: steps of x that share a scale. single_: groups are one piece. two_bytes_: of x.
template <WeightType type_, int rows_, int piece_, bool minimums_, bool single_, bool two_bytes_>
struct TileVariant {
  static constexpr WeightType type = type_;
  static constexpr int rows = rows_, piece = piece_;
  static constexpr bool minimums = minimums_, single = single_, two_bytes = two_bytes_;
  /// Of which products of bytes know nothing.
  using Plain = TileVariant<type_, rows_, piece_, false, true, two_bytes_>;
  static const ByteNumbers& NumbersOf(const ByteRows& x) {
    return two_bytes ? x.of_8_bits : x.of_4_bits;
  }
};

template <int rows>
using TileFloats = Vec[rows][kTileVectors];

/// body(row, vector)
template <int rows, typename Body>
[[gnu::always_inline]] inline void ForTile(Body body) {
  Unroll<rows>([&](auto r) __attribute__((always_inline)) {
    Unroll<kTileVectors>([&](auto c) __attribute__((always_inline)) { body(r, c); });
  });
}

}  // namespace oort::OORT_ISA
