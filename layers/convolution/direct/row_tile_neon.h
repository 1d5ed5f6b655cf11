// SPDX-License-Identifier: MIT
// Five pixels by sixteen filters in assembly, multiplying by lanes of the pixels. Only for
// row_block.h, through row_tile.h, which has the twins in intrinsics.
//
// Up to three floats are read behind a row whose length is no multiple of four, and two vectors
// behind the weights.
#pragma once

#include <cstdint>

#include "layers/convolution/direct/tile_registers_neon.h"

namespace oort::OORT_ISA {

template <int vectors>
void ComputeRows(const RowTile& tile);

/// The limits of a clamp as two vectors; `at` is null where there are none.
struct TileLimits {
  explicit TileLimits(const RowTile& tile) : at(tile.clamp ? limits : nullptr) {
    for (int i = 0; i < 4; ++i) {
      limits[i] = tile.low;
      limits[i + 4] = tile.high;
    }
  }
  float limits[8];
  const float* at;
};

// clang-format off
#define OORT_ROW_LOAD(row, set) OORT_ASM_LOAD_NEXT(OORT_TILE_ELEMENTS(set, row), p##row)
#define OORT_ROW_STEP(set, lane, loads) OORT_TILE_STEP(5, set, lane, loads, )
// Four channels; the next four of each pixel are loaded meanwhile.
#define OORT_ROW_FOUR(set, next)                                             \
  OORT_ROW_STEP(set, 0, OORT_ROW_LOAD(0, next))                              \
  OORT_ROW_STEP(set, 1, OORT_ROW_LOAD(1, next))                              \
  OORT_ROW_STEP(set, 2, OORT_ROW_LOAD(2, next) OORT_ROW_LOAD(4, next))       \
  OORT_ROW_STEP(set, 3, OORT_ROW_LOAD(3, next))
// The last channels of a tap may be one, two or three.
#define OORT_ROW_FOUR1(set, next) OORT_ROW_STEP(set, 0, OORT_ASM_ROWS_5(OORT_ROW_LOAD, next))
#define OORT_ROW_FOUR2(set, next)                                                               \
  OORT_ROW_STEP(set, 0, OORT_ROW_LOAD(0, next) OORT_ROW_LOAD(1, next) OORT_ROW_LOAD(4, next))   \
  OORT_ROW_STEP(set, 1, OORT_ROW_LOAD(2, next) OORT_ROW_LOAD(3, next))
#define OORT_ROW_FOUR3(set, next)                                                               \
  OORT_ROW_STEP(set, 0, OORT_ROW_LOAD(0, next) OORT_ROW_LOAD(1, next))                          \
  OORT_ROW_STEP(set, 1, OORT_ROW_LOAD(2, next) OORT_ROW_LOAD(4, next))                          \
  OORT_ROW_STEP(set, 2, OORT_ROW_LOAD(3, next))
#define OORT_ROW_LAST_FOUR(set) \
  OORT_ROW_STEP(set, 0, ) OORT_ROW_STEP(set, 1, ) OORT_ROW_STEP(set, 2, ) OORT_ROW_STEP(set, 3, )
#define OORT_ROW_OFFSET(row) OORT_ASM_ADVANCE(p##row, offset)
#define OORT_ROW_POINTERS                                                                       \
  OORT_ASM_LOAD_POINTERS(p0, p1, rows) OORT_ASM_LOAD_POINTERS(p2, p3, rows)                     \
  OORT_ASM_LOAD_POINTER(p4, rows) OORT_ASM_ROWS_5(OORT_ROW_OFFSET)
#define OORT_ROW_BIAS(row)                                                                      \
  OORT_ASM_LOAD2(OORT_TILE_SUM(row, 0), OORT_TILE_SUM(row, 1), bias, 0)                         \
  OORT_ASM_LOAD2(OORT_TILE_SUM(row, 2), OORT_TILE_SUM(row, 3), bias, 32)

// The epilogue has the registers of a set of elements for itself.
#define OORT_ROW_ADD_ONE(vector, row, set)                                                      \
  OORT_ASM_BINARY(fadd, 4s, OORT_TILE_SUM(row, vector), OORT_TILE_SUM(row, vector),             \
                  OORT_TILE_ELEMENTS(set, vector))
#define OORT_ROW_ADD(row, set)                                                                  \
  OORT_ASM_LOAD2(OORT_TILE_ELEMENTS(set, 0), OORT_TILE_ELEMENTS(set, 1), addend, 0)             \
  OORT_ASM_LOAD2(OORT_TILE_ELEMENTS(set, 2), OORT_TILE_ELEMENTS(set, 3), addend, 32)            \
  OORT_ASM_ADVANCE(addend, stride) OORT_ASM_VECTORS_4(OORT_ROW_ADD_ONE, row, set)
#define OORT_ROW_LIMIT_ONE(vector, row, limit, by) \
  OORT_ASM_BINARY(limit, 4s, OORT_TILE_SUM(row, vector), OORT_TILE_SUM(row, vector), by)
#define OORT_ROW_LIMIT(row, limit, by) OORT_ASM_VECTORS_4(OORT_ROW_LIMIT_ONE, row, limit, by)
// `added` comes behind the addend, `bounded` leaves where there is no upper limit.
#define OORT_ROW_EPILOGUE(set, added, bounded)                                                  \
  "cbz %[addend], 70f\n"                                                                        \
  OORT_ASM_ROWS_5(OORT_ROW_ADD, set) added                                                      \
  "70:\n"                                                                                       \
  "cbz %[limits], 71f\n"                                                                        \
  OORT_ASM_LOAD2(OORT_TILE_ELEMENTS(set, 0), OORT_TILE_ELEMENTS(set, 1), limits, 0)             \
  OORT_ASM_ROWS_5(OORT_ROW_LIMIT, fmax, OORT_TILE_ELEMENTS(set, 0)) bounded                     \
  OORT_ASM_ROWS_5(OORT_ROW_LIMIT, fmin, OORT_TILE_ELEMENTS(set, 1))                             \
  "71:\n"
#define OORT_ROW_STORE(row) OORT_TILE_STORE(row, out, stride)
#define OORT_ROW_LOAD_ONE(row) OORT_ASM_LOAD_ONE_NEXT(s, OORT_TILE_ELEMENTS(E, row), p##row, 4)

template <>
inline void ComputeRows<4>(const RowTile& tile) {
  const float* const* rows = tile.rows;
  const float *b = tile.weights, *addend = tile.addend, *p0, *p1, *p2, *p3, *p4;
  float* out = tile.out;
  int64_t taps = tile.taps, left;
  const TileLimits limits(tile);
  asm volatile(
      OORT_ASM_ROWS_5(OORT_ROW_BIAS)
      "cbz %[taps], 9f\n"
      OORT_TILE_FIRST_COLUMNS
      "1:\n"  // a tap
      OORT_ROW_POINTERS
      "lsr %[left], %[depth], #2\n"
      "cbz %[left], 5f\n"
      OORT_ASM_ROWS_5(OORT_ROW_LOAD, E)
      "2:\n"
      OORT_ASM_COUNT_DOWN(left)
      "b.eq 3f\n"
      OORT_ROW_FOUR(E, O)
      OORT_ASM_COUNT_DOWN(left)
      "b.eq 4f\n"
      OORT_ROW_FOUR(O, E)
      "b 2b\n"
      "3:\n"
      OORT_ROW_LAST_FOUR(E)
      "b 5f\n"
      "4:\n"
      OORT_ROW_LAST_FOUR(O)
      "5:\n"
      "ands %[left], %[depth], #3\n"
      "b.eq 7f\n"
      "6:\n"  // the up to three channels behind the last four
      OORT_ASM_ROWS_5(OORT_ROW_LOAD_ONE)
      OORT_ROW_STEP(E, 0, )
      OORT_ASM_COUNT_DOWN(left)
      "b.ne 6b\n"
      "7:\n"
      OORT_ASM_COUNT_DOWN(taps)
      "b.ne 1b\n"
      "9:\n"
      OORT_ROW_EPILOGUE(E, , )
      OORT_ASM_ROWS_5(OORT_ROW_STORE)
      : [rows] "+&r"(rows), [b] "+&r"(b), [addend] "+&r"(addend), [out] "+&r"(out), [taps] "+&r"(taps),
        [left] "=&r"(left), [p0] "=&r"(p0), [p1] "=&r"(p1), [p2] "=&r"(p2), [p3] "=&r"(p3),
        [p4] "=&r"(p4)
      : [depth] "r"(tile.depth), [bias] "r"(tile.bias), [stride] "r"(tile.stride * 4),
        [limits] "r"(limits.at), [offset] "r"(tile.offset * 4)
      : "cc", "memory", OORT_ASM_ALL_VECTORS);
}

// While the last four channels of a tap are multiplied, the first of the next tap or tile are
// loaded: else the latency of its pointers and channels shows, as long as ten channels take.
#define OORT_ROW_NEXT_TAP                    \
  OORT_ASM_COUNT_DOWN(tap)                   \
  "csel %[p0], %[skip], xzr, eq\n"           \
  OORT_ASM_ADVANCE(rows, p0)                 \
  OORT_ROW_POINTERS                          \
  "ldr %[left], [%[counts]]\n"
// The next panel is fetched from far away while this one is used.
#define OORT_ROW_FETCH OORT_ASM_PREFETCH(pldl2keep, soon, 0) OORT_ASM_ADVANCE(soon, soon_step)
// The addends of the next tile are fetched while its products are made.
#define OORT_ROW_FETCH_ADDENDS                                                                \
  "prfm pldl1keep, [%[addend]]\n"                                                             \
  "prfm pldl1keep, [%[addend], %[stride]]\n"                                                  \
  "add %[ahead], %[addend], %[stride], lsl #1\n"                                              \
  "prfm pldl1keep, [%[ahead]]\n"                                                              \
  "prfm pldl1keep, [%[ahead], %[stride]]\n"                                                   \
  "add %[ahead], %[ahead], %[stride], lsl #1\n"                                               \
  "prfm pldl1keep, [%[ahead]]\n"
#define OORT_ROW_BOUNDED "ldr %[ahead], [%[counts], #16]\n cbz %[ahead], 71f\n"
#define OORT_ROW_RENEW(row) OORT_ROW_STORE(row) OORT_ROW_BIAS(row)
#define OORT_ROW_FINISH(set)                                                                  \
  "mov %[b], %[weights]\n"                                                                    \
  OORT_TILE_FIRST_COLUMNS                                                                     \
  "ldr %[tap], [%[counts], #8]\n"                                                             \
  "sub %[tiles], %[tiles], #1\n"                                                              \
  OORT_ROW_EPILOGUE(set, OORT_ROW_FETCH_ADDENDS, OORT_ROW_BOUNDED)                            \
  OORT_ASM_ROWS_5(OORT_ROW_RENEW)

// `last` multiplies the last channels of a tap: four, or the fewer that are left.
#define OORT_ROW_COMPUTE_TILES(last)                                                           \
  asm volatile(                                                                                \
      OORT_ASM_ROWS_5(OORT_ROW_BIAS)                                                           \
      OORT_TILE_FIRST_COLUMNS                                                                  \
      OORT_ROW_POINTERS                                                                        \
      OORT_ASM_ROWS_5(OORT_ROW_LOAD, E)                                                        \
      "2:\n"                                                                                   \
      OORT_ASM_COUNT_DOWN(left)                                                                \
      "b.eq 4f\n"                                                                              \
      OORT_ROW_FETCH                                                                           \
      OORT_ROW_FOUR(E, O)                                                                      \
      "3:\n"                                                                                   \
      OORT_ASM_COUNT_DOWN(left)                                                                \
      "b.eq 5f\n"                                                                              \
      OORT_ROW_FETCH                                                                           \
      OORT_ROW_FOUR(O, E)                                                                      \
      "b 2b\n"                                                                                 \
      "4:\n" /* the last of a tap */                                                           \
      OORT_ROW_NEXT_TAP                                                                        \
      OORT_ROW_FETCH                                                                           \
      last(E, O)                                                                               \
      "cbnz %[tap], 3b\n"                                                                      \
      OORT_ROW_FINISH(E)                                                                       \
      "cbnz %[tiles], 3b\n"                                                                    \
      "b 6f\n"                                                                                 \
      "5:\n"                                                                                   \
      OORT_ROW_NEXT_TAP                                                                        \
      OORT_ROW_FETCH                                                                           \
      last(O, E)                                                                               \
      "cbnz %[tap], 2b\n"                                                                      \
      OORT_ROW_FINISH(O)                                                                       \
      "cbnz %[tiles], 2b\n"                                                                    \
      "6:\n"                                                                                   \
      : [rows] "+&r"(rows), [b] "+&r"(b), [addend] "+&r"(addend), [out] "+&r"(out),            \
        [tap] "+&r"(tap), [left] "+&r"(left), [tiles] "+&r"(tiles), [soon] "+&r"(soon),        \
        [p0] "=&r"(p0), [p1] "=&r"(p1), [p2] "=&r"(p2), [p3] "=&r"(p3), [p4] "=&r"(p4),        \
        [ahead] "=&r"(ahead)                                                                   \
      : [counts] "r"(counts), [skip] "r"(skip * 8), [weights] "r"(tile.weights),               \
        [bias] "r"(tile.bias), [stride] "r"(tile.stride * 4), [limits] "r"(limits.at),         \
        [offset] "r"(tile.offset * 4), [soon_step] "r"(soon_step)                              \
      : "cc", "memory", OORT_ASM_ALL_VECTORS)

inline void ComputeTiles(const RowTile& tile, int64_t tiles, int64_t skip) {
  const float* const* rows = tile.rows;
  const float *b = tile.weights, *addend = tile.addend, *p0, *p1, *p2, *p3, *p4, *ahead;
  float* out = tile.out;
  const int64_t bounded = tile.high < __builtin_inff() ? 1 : 0;
  // An asm statement takes thirty operands, so these come from memory.
  const int64_t counts[3] = {(tile.depth + 3) / 4, tile.taps, bounded};
  int64_t left = counts[0], tap = counts[1];
  // What follows in the weights is used next: each four channels of a tile fetch a part of a line.
  const float* soon = b + tile.taps * tile.depth * kTileColumns;
  const int64_t soon_step = 4 * kTileColumns * 4 / tiles;
  const TileLimits limits(tile);
  switch (tile.depth % 4) {
    case 0: OORT_ROW_COMPUTE_TILES(OORT_ROW_FOUR); break;
    case 1: OORT_ROW_COMPUTE_TILES(OORT_ROW_FOUR1); break;
    case 2: OORT_ROW_COMPUTE_TILES(OORT_ROW_FOUR2); break;
    default: OORT_ROW_COMPUTE_TILES(OORT_ROW_FOUR3); break;
  }
}
// clang-format on

}  // namespace oort::OORT_ISA

#include "layers/convolution/direct/row_tile_narrow_neon.h"
