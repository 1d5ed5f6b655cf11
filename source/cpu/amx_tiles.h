// SPDX-License-Identifier: MIT
// Products on AMX: four tiles of 16 x 16 sums, two of 16 rows of A with up to 32 steps of k, two of
// 16 columns of B with pairs of steps side by side. For kernels compiled with AMX.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace oort::OORT_ISA {

inline constexpr int kTilePanel = 32;  // columns of a packed panel of B

/// A compiler barrier. The intrinsics for tiles do not tell the compiler what memory they read, so
/// stores before this are completed here.
inline void SettleMemory(const void* p) { asm volatile("" : : "r"(p) : "memory"); }

/// The operand of LDTILECFG. Tiles 0 to 3 are sums, 4 and 5 rows of A, 6 and 7 of B, whose rows are
/// pairs of steps, or fours of bytes.
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 0, 0, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 0, 0};
  /// For `step` steps of k at a time, an even number of up to 32.
  constexpr explicit TileConfig(int step) {
    row_bytes[4] = row_bytes[5] = static_cast<uint16_t>(2 * step);
    rows[6] = rows[7] = static_cast<uint8_t>(step / 2);
  }
};
static_assert(sizeof(TileConfig) == 64);

inline void BeginTiles() {
  static constexpr TileConfig kConfig(32);
  _tile_loadconfig(&kConfig);
}
/// Releases the tiles. Otherwise every context switch would save 8 KiB.
inline void EndTiles() { _tile_release(); }

/// Where the sums of 16 rows are read from and written to: rows of f32, `stride` bytes apart.
struct TileSums {
  const float* from = nullptr;  ///< null for zeros
  int64_t from_stride = 0;
  float* to = nullptr;
  int64_t to_stride = 0;
};

/// What a product of tiles reads: step i finds A's rows at upper + a(i) and lower + a(i).
struct TileFactors {
  const char *upper = nullptr, *lower = nullptr;
  int64_t a_stride = 0;  ///< bytes between rows
  const char* b = nullptr;
  int64_t b_step = 2 * 32 * kTilePanel;  ///< bytes from a step to the next
  int64_t steps = 0;
  const char* soon = nullptr;
  int64_t soon_bytes = 0;
};

/// Tile `sums` += tile `a` * tile `b`, of bf16, of f16, or of u8 and s8. TDPBF16PS, TDPFP16PS and
/// TDPBUSD are written as bytes, because older compilers do not know them, and because the
/// intrinsics take only literal numbers of tiles.
template <int prefix, int opcode>
struct TileProducts {
  template <int sums, int a, int b>
  static void Add() {
    asm volatile(".byte 0xc4, 0xe2, %c0, %c1, %c2"
                 :
                 : "i"(((~b & 15) << 3) | prefix), "i"(opcode), "i"(0xc0 | (sums << 3) | a));
  }
};
using Bf16Products = TileProducts<2, 0x5c>;
using F16Products = TileProducts<3, 0x5c>;
using ByteProducts = TileProducts<1, 0x5e>;

/// `low` and `right` tell whether the second half of the rows and of the columns is needed. Later
/// operands are prefetched meanwhile, because memory takes ten times as long to deliver the factors
/// as the products take.
template <typename Products, bool low, bool right, typename Place>
inline void TileProduct(const TileFactors& factors, const TileSums& upper, const TileSums& lower,
                        const Place& a) {
  constexpr int kPairs = 2 * 2 * kTilePanel;
  const int64_t steps = factors.steps, stride = factors.a_stride, b_step = factors.b_step;
  const char *b = factors.b, *soon = factors.soon;
  const int64_t lines =
      soon == nullptr || steps == 0 ? 0 : (factors.soon_bytes / 64 + steps - 1) / steps;
  SettleMemory(upper.from);
  // Both halves begin alike. They are written out, because the intrinsics take only literal numbers
  // of tiles.
  if (upper.from == nullptr) {
    _tile_zero(0);
    if constexpr (right) _tile_zero(1);
    if constexpr (low) _tile_zero(2);
    if constexpr (low && right) _tile_zero(3);
  } else {
    _tile_loadd(0, upper.from, upper.from_stride);
    if constexpr (right) _tile_loadd(1, upper.from + 16, upper.from_stride);
    if constexpr (low) _tile_loadd(2, lower.from, lower.from_stride);
    if constexpr (low && right) _tile_loadd(3, lower.from + 16, lower.from_stride);
  }
  for (int64_t i = 0; i < steps; ++i, b += b_step) {
    const int64_t place = a(i);
    _tile_loadd(4, factors.upper + place, stride);
    _tile_loadd(6, b, kPairs);
    for (int64_t line = 0; line < lines; ++line, soon += 64) __builtin_prefetch(soon, 0, 2);
    Products::template Add<0, 4, 6>();
    if constexpr (right) {
      _tile_loadd(7, b + 64, kPairs);
      Products::template Add<1, 4, 7>();
    }
    if constexpr (low) {
      _tile_loadd(5, factors.lower + place, stride);
      Products::template Add<2, 5, 6>();
    }
    if constexpr (low && right) Products::template Add<3, 5, 7>();
  }
  _tile_stored(0, upper.to, upper.to_stride);
  if constexpr (right) _tile_stored(1, upper.to + 16, upper.to_stride);
  if constexpr (low) _tile_stored(2, lower.to, lower.to_stride);
  if constexpr (low && right) _tile_stored(3, lower.to + 16, lower.to_stride);
}

/// Stores the sums of a tile, as far as they are wanted. What lies beyond is undefined.
template <typename Products, typename Place>
inline void MultiplyTiles(const TileFactors& factors, bool low, bool right, const TileSums& upper,
                          const TileSums& lower, const Place& a) {
  if (low && right) return TileProduct<Products, true, true>(factors, upper, lower, a);
  if (low) return TileProduct<Products, true, false>(factors, upper, lower, a);
  if (right) return TileProduct<Products, false, true>(factors, upper, lower, a);
  TileProduct<Products, false, false>(factors, upper, lower, a);
}

}  // namespace oort::OORT_ISA
