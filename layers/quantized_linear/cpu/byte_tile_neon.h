// SPDX-License-Identifier: MIT
// Tiles of up to four rows of x and eight of the weight by SDOT. Sums of a piece begin at the bits
// of a large float, so that a subtraction makes floats of them: processors do more of these than of
// conversions. Only for byte_tiles.dot.cpp.
#pragma once

#include <cstring>

#include "cpu/assembly_neon.h"
#include "cpu/unroll.h"
#include "layers/quantized_linear/cpu/byte_tile_variant.h"

namespace oort::OORT_ISA {

inline constexpr int kTileMostRows = 4;
/// From so many rows on tiles are faster than GEMVs.
inline constexpr int kTileFewestRows = 4;
/// Whether bytes of all types of weights are multiplied alike.
inline constexpr bool kTileSameTypes = true;
/// Whether there are tiles of two bytes of x.
inline constexpr bool kTileTwoBytes = true;
/// Lines hold weights of 8 bits with these bits turned, and others plus this zero.
inline constexpr int kTileTurn = 0;
inline int ZeroOfTiles(const PanelLayout&) { return 0; }

/// The bits of the float 1.5 * 2^23. A sum of 32 products of bytes is below 2^22, so it stays in
/// the fraction.
inline constexpr int32_t kSumMagic = 0x4b400000;
inline constexpr int32_t kSumZero[4] = {};
inline constexpr int32_t kSumStart[4] = {kSumMagic, kSumMagic, kSumMagic, kSumMagic};

template <int rows>
using TileSums = int32x4_t[rows][2];

/// A number of each row.
template <int rows>
struct RowLanes {
  float32x4_t v;
  [[gnu::always_inline]] explicit RowLanes(const float* from) {
    if constexpr (rows == 4) {
      v = vld1q_f32(from);
    } else if constexpr (rows == 2) {
      v = vcombine_f32(vld1_f32(from), vdup_n_f32(0));
    } else {
      v = vdupq_n_f32(*from);
    }
  }
  template <int row>
  [[gnu::always_inline]] Vec Mul(Vec value) const {
    return vmulq_laneq_f32(value.v, v, row);
  }
  template <int row>
  [[gnu::always_inline]] Vec Fma(Vec value, Vec sum) const {
    return vfmaq_laneq_f32(sum.v, value.v, v, row);
  }
};

#if OORT_HAS_ASSEMBLY
// Tiles of four rows are in assembly: GCC 12 does one row after the other, so that few sums are
// under way at a time. Rows of x are in v20 to v23, 16 steps of each, and lines of weights in v24
// to v27.
// clang-format off
#define OORT_TILE_DOT(r, w, c, lane) \
  OORT_ASM_DOT_OF(sdot, "%[s" #r #c "]", OORT_ASM_V(w), "v2" #r, lane)
#define OORT_TILE_LINE(w0, w1, offset, lane)                                                      \
  OORT_ASM_LOAD2(w0, w1, lines, offset)                                                           \
  OORT_TILE_DOT(0, w0, 0, lane) OORT_TILE_DOT(1, w0, 0, lane) OORT_TILE_DOT(2, w0, 0, lane)       \
  OORT_TILE_DOT(3, w0, 0, lane) OORT_TILE_DOT(0, w1, 1, lane) OORT_TILE_DOT(1, w1, 1, lane)       \
  OORT_TILE_DOT(2, w1, 1, lane) OORT_TILE_DOT(3, w1, 1, lane)
// 16 steps; the rows of x begin at the offsets x0 to x3.
#define OORT_TILE_PART(x0, x1, x2, x3, a, b, c, d)                                                \
  OORT_ASM_LOAD(20, x, x0) OORT_ASM_LOAD(21, x, x1) OORT_ASM_LOAD(22, x, x2)                      \
  OORT_ASM_LOAD(23, x, x3)                                                                        \
  OORT_TILE_LINE(24, 25, a, 0) OORT_TILE_LINE(26, 27, b, 1) OORT_TILE_LINE(24, 25, c, 2)          \
  OORT_TILE_LINE(26, 27, d, 3)
// Sums begin at `start`, which is loaded: the units that would copy it have more to do.
#define OORT_TILE_START(r) "ldr %q[s" #r "0], %[start]\n ldr %q[s" #r "1], %[start]\n"
#define OORT_TILE_RUN(parts)                                                                      \
  asm(OORT_TILE_START(0) OORT_TILE_START(1) OORT_TILE_START(2) OORT_TILE_START(3) parts           \
      : [s00] "=&w"(sums[0][0]), [s01] "=&w"(sums[0][1]), [s10] "=&w"(sums[1][0]),                \
        [s11] "=&w"(sums[1][1]), [s20] "=&w"(sums[2][0]), [s21] "=&w"(sums[2][1]),                \
        [s30] "=&w"(sums[3][0]), [s31] "=&w"(sums[3][1])                                          \
      : [lines] "r"(lines), [x] "r"(x), [start] "m"(start),                                       \
        "m"(*reinterpret_cast<const int8_t(*)[V::piece * kPanelRows]>(lines)),                    \
        "m"(*reinterpret_cast<const int8_t(*)[4 * V::piece]>(x))                                  \
      : "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27")
// clang-format on
#endif

/// sums = start + the products of a piece. `x` has the bytes of the rows one behind the other.
template <typename V>
[[gnu::always_inline]] inline void SumTile(const int8_t* lines, const int8_t* x,
                                           const int32_t (&start)[4], TileSums<V::rows>& sums) {
#if OORT_HAS_ASSEMBLY
  if constexpr (V::rows == 4 && V::piece == 32) {
    OORT_TILE_RUN(OORT_TILE_PART(0, 32, 64, 96, 0, 64, 128, 192)
                      OORT_TILE_PART(16, 48, 80, 112, 256, 320, 384, 448));
    return;
  } else if constexpr (V::rows == 4) {
    OORT_TILE_RUN(OORT_TILE_PART(0, 16, 32, 48, 0, 64, 128, 192));
    return;
  }
#endif
  ForTile<V::rows>([&](auto r, auto c)
                       __attribute__((always_inline)) { sums[r][c] = vld1q_s32(start); });
  Unroll<V::piece / 16>([&](auto part) __attribute__((always_inline)) {
    int8x16_t bytes[V::rows];
    Unroll<V::rows>([&](auto r) __attribute__((always_inline)) {
      bytes[r] = vld1q_s8(x + r * V::piece + 16 * part);
    });
    Unroll<4>([&](auto i) __attribute__((always_inline)) {
      const int8_t* line = lines + 64 * (4 * part + i);
      const int8x16_t w[2] = {vld1q_s8(line), vld1q_s8(line + 16)};
      ForTile<V::rows>([&](auto r, auto c) __attribute__((always_inline)) {
        sums[r][c] = vdotq_laneq_s32(sums[r][c], w[c], bytes[r], i);
      });
    });
  });
}

/// The sums of both bytes.
template <typename V>
[[gnu::always_inline]] inline void SumBothBytes(const int8_t* lines, const ByteRows& x, int64_t at,
                                                TileSums<V::rows>& first,
                                                TileSums<V::rows>& second) {
  SumTile<V>(lines, x.q + at * V::piece, kSumZero, first);
  SumTile<V>(lines, x.fine + at * V::piece, kSumZero, second);
}

/// The products of a piece where some rows have a second byte: of all, or of those that say so.
template <typename V>
[[gnu::noinline]] void FineTile(const int8_t* lines, const ByteRows& x, int64_t at,
                                TileFloats<V::rows>& products) {
  TileSums<V::rows> first, second;
  SumBothBytes<V>(lines, x, at, first, second);
  ForTile<V::rows>([&](auto r, auto c) {
    const bool fine = V::two_bytes || x.is_fine[at + r] != 0;
    products[r][c] =
        vcvtq_f32_s32(fine ? vmlaq_n_s32(second[r][c], first[r][c], kFineSteps) : first[r][c]);
  });
}

/// The products of a piece of all rows, not yet scaled.
template <typename V>
[[gnu::always_inline]] inline void PieceProducts(const int8_t* lines, const ByteRows& x,
                                                 const ByteNumbers&, int64_t at, int /*zero*/,
                                                 TileFloats<V::rows>& products) {
  if constexpr (V::two_bytes) {
    TileSums<V::rows> first, second;
    SumBothBytes<V>(lines, x, at, first, second);
    ForTile<V::rows>([&](auto r, auto c) __attribute__((always_inline)) {
      products[r][c] = vcvtq_f32_s32(vmlaq_n_s32(second[r][c], first[r][c], kFineSteps));
    });
    return;
  }
  uint32_t any_fine = 0;
  std::memcpy(&any_fine, x.is_fine + at, V::rows);
  if (any_fine != 0) [[unlikely]] {
    TileFloats<V::rows> fine;
    FineTile<typename V::Plain>(lines, x, at, fine);
    ForTile<V::rows>([&](auto r, auto c)
                         __attribute__((always_inline)) { products[r][c] = fine[r][c]; });
    return;
  }
  TileSums<V::rows> sums;
  SumTile<V>(lines, x.q + at * V::piece, kSumStart, sums);
  const float32x4_t magic = vreinterpretq_f32_s32(vdupq_n_s32(kSumMagic));
  ForTile<V::rows>([&](auto r, auto c) __attribute__((always_inline)) {
    products[r][c] = vsubq_f32(vreinterpretq_f32_s32(sums[r][c]), magic);
  });
}

}  // namespace oort::OORT_ISA
