// SPDX-License-Identifier: MIT
// Tiles of up to eight rows of x and eight of the weight by SDOT. Sums of a piece begin at the bits
// of a large float, so that a subtraction makes floats of them: processors do more of these than of
// conversions. Only for byte_tiles.dot.cpp.
#pragma once

#include <cstring>

#include "cpu/assembly_neon.h"
#include "cpu/unroll.h"
#include "layers/quantized_linear/cpu/byte_tile_variant.h"

namespace oort::OORT_ISA {

inline constexpr int kTileMostRows = 8;
/// Whether there are tiles of so many rows.
constexpr bool HasTileOf(int rows) { return rows == 8 || rows == 4 || rows == 2 || rows == 1; }
/// From so many rows on tiles are faster than GEMVs.
inline constexpr int kTileFewestRows = 4;
/// Whether bytes of all types of weights are multiplied alike.
inline constexpr bool kTileSameTypes = true;
/// Whether there are tiles of two bytes of x.
inline constexpr bool kTileTwoBytes = true;
/// Packed weights are prefetched by the hardware alone.
inline constexpr int64_t kTileFetchAhead = 0;
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
  float32x4_t v[(rows + 3) / 4];
  [[gnu::always_inline]] explicit RowLanes(const float* from) {
    if constexpr (rows >= 4) {
      Unroll<rows / 4>([&](auto i) { v[i] = vld1q_f32(from + 4 * i); });
    } else if constexpr (rows == 2) {
      v[0] = vcombine_f32(vld1_f32(from), vdup_n_f32(0));
    } else {
      v[0] = vdupq_n_f32(*from);
    }
  }
  template <int row>
  [[gnu::always_inline]] Vec Mul(Vec value) const {
    return vmulq_laneq_f32(value.v, v[row / 4], row % 4);
  }
  template <int row>
  [[gnu::always_inline]] Vec Fma(Vec value, Vec sum) const {
    return vfmaq_laneq_f32(sum.v, value.v, v[row / 4], row % 4);
  }
};

#if OORT_HAS_ASSEMBLY
// Tiles of eight and four rows are in assembly: GCC 12 does one row after the other, so that few
// sums are under way at a time. Rows of x are in v16 to v23, 16 steps of each, and lines of weights
// in v24 to v27.
// clang-format off
#define OORT_TILE_DOT(r, x, w, c, lane) \
  OORT_ASM_DOT_OF(sdot, "%[s" #r #c "]", OORT_ASM_V(w), OORT_ASM_V(x), lane)
#define OORT_TILE_DOTS_4(w, c, lane)                                                              \
  OORT_TILE_DOT(0, 16, w, c, lane) OORT_TILE_DOT(1, 17, w, c, lane)                               \
  OORT_TILE_DOT(2, 18, w, c, lane) OORT_TILE_DOT(3, 19, w, c, lane)
#define OORT_TILE_DOTS_8(w, c, lane)                                                              \
  OORT_TILE_DOTS_4(w, c, lane)                                                                    \
  OORT_TILE_DOT(4, 20, w, c, lane) OORT_TILE_DOT(5, 21, w, c, lane)                               \
  OORT_TILE_DOT(6, 22, w, c, lane) OORT_TILE_DOT(7, 23, w, c, lane)
#define OORT_TILE_LINE(dots, w0, w1, offset, lane) \
  OORT_ASM_LOAD2(w0, w1, lines, offset) dots(w0, 0, lane) dots(w1, 1, lane)
// 16 steps: those of x begin at the offsets named, the lines at a to d.
#define OORT_TILE_LOAD_4(x0, x1, x2, x3)                                                          \
  OORT_ASM_LOAD(16, x, x0) OORT_ASM_LOAD(17, x, x1) OORT_ASM_LOAD(18, x, x2)                      \
  OORT_ASM_LOAD(19, x, x3)
#define OORT_TILE_LOAD_8(x0, x1, x2, x3, x4, x5, x6, x7)                                          \
  OORT_TILE_LOAD_4(x0, x1, x2, x3) OORT_ASM_LOAD(20, x, x4) OORT_ASM_LOAD(21, x, x5)              \
  OORT_ASM_LOAD(22, x, x6) OORT_ASM_LOAD(23, x, x7)
#define OORT_TILE_LINES(dots, a, b, c, d)                                                         \
  OORT_TILE_LINE(dots, 24, 25, a, 0) OORT_TILE_LINE(dots, 26, 27, b, 1)                           \
  OORT_TILE_LINE(dots, 24, 25, c, 2) OORT_TILE_LINE(dots, 26, 27, d, 3)
// Sums begin at `start`, which is loaded: the units that would copy it have more to do.
#define OORT_TILE_START(r) "ldr %q[s" #r "0], %[start]\n ldr %q[s" #r "1], %[start]\n"
#define OORT_TILE_START_4 OORT_TILE_START(0) OORT_TILE_START(1) OORT_TILE_START(2) OORT_TILE_START(3)
#define OORT_TILE_START_8 \
  OORT_TILE_START_4 OORT_TILE_START(4) OORT_TILE_START(5) OORT_TILE_START(6) OORT_TILE_START(7)
#define OORT_TILE_SUM(r) [s##r##0] "=&w"(sums[r][0]), [s##r##1] "=&w"(sums[r][1])
#define OORT_TILE_SUMS_4 OORT_TILE_SUM(0), OORT_TILE_SUM(1), OORT_TILE_SUM(2), OORT_TILE_SUM(3)
#define OORT_TILE_SUMS_8 \
  OORT_TILE_SUMS_4, OORT_TILE_SUM(4), OORT_TILE_SUM(5), OORT_TILE_SUM(6), OORT_TILE_SUM(7)
#define OORT_TILE_RUN(rows, ...)                                                                  \
  asm(OORT_TILE_START_##rows __VA_ARGS__                                                          \
      : OORT_TILE_SUMS_##rows                                                                     \
      : [lines] "r"(lines), [x] "r"(x), [start] "m"(start),                                       \
        "m"(*reinterpret_cast<const int8_t(*)[V::piece * kPanelRows]>(lines)),                    \
        "m"(*reinterpret_cast<const int8_t(*)[rows * V::piece]>(x))                               \
      : "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27")
// clang-format on
#endif

/// sums = start + the products of a piece. `x` has the bytes of the rows one behind the other.
template <typename V>
[[gnu::always_inline]] inline void SumTile(const int8_t* lines, const int8_t* x,
                                           const int32_t (&start)[4], TileSums<V::rows>& sums) {
#if OORT_HAS_ASSEMBLY
  if constexpr (V::rows == 8 && V::piece == 32) {
    OORT_TILE_RUN(8, OORT_TILE_LOAD_8(0, 32, 64, 96, 128, 160, 192, 224)
                         OORT_TILE_LINES(OORT_TILE_DOTS_8, 0, 64, 128, 192)
                             OORT_TILE_LOAD_8(16, 48, 80, 112, 144, 176, 208, 240)
                                 OORT_TILE_LINES(OORT_TILE_DOTS_8, 256, 320, 384, 448));
    return;
  } else if constexpr (V::rows == 8) {
    OORT_TILE_RUN(8, OORT_TILE_LOAD_8(0, 16, 32, 48, 64, 80, 96, 112)
                         OORT_TILE_LINES(OORT_TILE_DOTS_8, 0, 64, 128, 192));
    return;
  } else if constexpr (V::rows == 4 && V::piece == 32) {
    OORT_TILE_RUN(4, OORT_TILE_LOAD_4(0, 32, 64, 96) OORT_TILE_LINES(
                         OORT_TILE_DOTS_4, 0, 64, 128, 192) OORT_TILE_LOAD_4(16, 48, 80, 112)
                         OORT_TILE_LINES(OORT_TILE_DOTS_4, 256, 320, 384, 448));
    return;
  } else if constexpr (V::rows == 4) {
    OORT_TILE_RUN(
        4, OORT_TILE_LOAD_4(0, 16, 32, 48) OORT_TILE_LINES(OORT_TILE_DOTS_4, 0, 64, 128, 192));
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
  uint64_t any_fine = 0;
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
