// SPDX-License-Identifier: MIT
// Ten pixels by eight filters in assembly: as row_tile_neon.h, through which it comes, for a last
// panel of which no more is wanted.
#pragma once

#include <cstdint>

#include "cpu/assembly_neon.h"

namespace oort::OORT_ISA {

// clang-format off
// v0 to v9 hold four channels of each pixel; v12 to v31 are sums, two a row.
#define OORT_NARROW_FILTERS_LOW 10
#define OORT_NARROW_FILTERS_HIGH 11
#define OORT_NARROW_LOW(row) OORT_NARROW_LOW_##row
#define OORT_NARROW_LOW_0 12
#define OORT_NARROW_LOW_1 14
#define OORT_NARROW_LOW_2 16
#define OORT_NARROW_LOW_3 18
#define OORT_NARROW_LOW_4 20
#define OORT_NARROW_LOW_5 22
#define OORT_NARROW_LOW_6 24
#define OORT_NARROW_LOW_7 26
#define OORT_NARROW_LOW_8 28
#define OORT_NARROW_LOW_9 30
#define OORT_NARROW_HIGH(row) OORT_NARROW_HIGH_##row
#define OORT_NARROW_HIGH_0 13
#define OORT_NARROW_HIGH_1 15
#define OORT_NARROW_HIGH_2 17
#define OORT_NARROW_HIGH_3 19
#define OORT_NARROW_HIGH_4 21
#define OORT_NARROW_HIGH_5 23
#define OORT_NARROW_HIGH_6 25
#define OORT_NARROW_HIGH_7 27
#define OORT_NARROW_HIGH_8 29
#define OORT_NARROW_HIGH_9 31

#define OORT_NARROW_OFFSET(row) OORT_ASM_ADVANCE(p##row, offset)
#define OORT_NARROW_LOAD(row) OORT_ASM_LOAD_NEXT(row, p##row)
#define OORT_NARROW_LOAD_ONE(row) OORT_ASM_LOAD_ONE_NEXT(s, row, p##row, 4)
#define OORT_NARROW_FMLA_LOW(row, lane) \
  OORT_ASM_FMLA_F32(OORT_NARROW_LOW(row), OORT_NARROW_FILTERS_LOW, row, lane)
#define OORT_NARROW_FMLA_HIGH(row, lane, load) \
  OORT_ASM_FMLA_F32(OORT_NARROW_HIGH(row), OORT_NARROW_FILTERS_HIGH, row, lane) load(row)
#define OORT_NARROW_STEP(lane, load)                                                             \
  OORT_ASM_ROWS_10(OORT_NARROW_FMLA_LOW, lane) OORT_ASM_LOAD_NEXT(OORT_NARROW_FILTERS_LOW, b)    \
  OORT_ASM_ROWS_10(OORT_NARROW_FMLA_HIGH, lane, load) OORT_ASM_LOAD_NEXT(OORT_NARROW_FILTERS_HIGH, b)
#define OORT_NARROW_FOUR(load)                                                                   \
  OORT_NARROW_STEP(0, OORT_ASM_NOTHING) OORT_NARROW_STEP(1, OORT_ASM_NOTHING)                    \
  OORT_NARROW_STEP(2, OORT_ASM_NOTHING) OORT_NARROW_STEP(3, load)
#define OORT_NARROW_BIAS(row) OORT_ASM_LOAD2(OORT_NARROW_LOW(row), OORT_NARROW_HIGH(row), bias, 0)
// The epilogue has the registers of the pixels for itself.
#define OORT_NARROW_ADD(row)                                                                     \
  OORT_ASM_LOAD2(0, 1, addend, 0) OORT_ASM_ADVANCE(addend, stride)                               \
  OORT_ASM_BINARY(fadd, 4s, OORT_NARROW_LOW(row), OORT_NARROW_LOW(row), 0)                       \
  OORT_ASM_BINARY(fadd, 4s, OORT_NARROW_HIGH(row), OORT_NARROW_HIGH(row), 1)
#define OORT_NARROW_LIMIT(row)                                                                   \
  OORT_ASM_BINARY(fmax, 4s, OORT_NARROW_LOW(row), OORT_NARROW_LOW(row), 0)                       \
  OORT_ASM_BINARY(fmin, 4s, OORT_NARROW_LOW(row), OORT_NARROW_LOW(row), 1)                       \
  OORT_ASM_BINARY(fmax, 4s, OORT_NARROW_HIGH(row), OORT_NARROW_HIGH(row), 0)                     \
  OORT_ASM_BINARY(fmin, 4s, OORT_NARROW_HIGH(row), OORT_NARROW_HIGH(row), 1)
#define OORT_NARROW_STORE(row)                                                                   \
  OORT_ASM_STORE2(OORT_NARROW_LOW(row), OORT_NARROW_HIGH(row), out, 0) OORT_ASM_ADVANCE(out, stride)

template <>
inline void ComputeRows<2>(const RowTile& tile) {
  const float *const *rows = tile.rows, *const *more = tile.more_rows;
  const float *b = tile.weights, *addend = tile.addend;
  const float *p0, *p1, *p2, *p3, *p4, *p5, *p6, *p7, *p8, *p9;
  float* out = tile.out;
  int64_t taps = tile.taps;
  const TileLimits limits(tile);
  int64_t left;
  asm volatile(
      OORT_ASM_ROWS_10(OORT_NARROW_BIAS)
      "cbz %[taps], 9f\n"
      OORT_ASM_LOAD_NEXT(OORT_NARROW_FILTERS_LOW, b)
      OORT_ASM_LOAD_NEXT(OORT_NARROW_FILTERS_HIGH, b)
      "1:\n"  // a tap
      OORT_ASM_LOAD_POINTERS(p0, p1, rows)
      OORT_ASM_LOAD_POINTERS(p2, p3, rows)
      OORT_ASM_LOAD_POINTER(p4, rows)
      OORT_ASM_LOAD_POINTERS(p5, p6, more)
      OORT_ASM_LOAD_POINTERS(p7, p8, more)
      OORT_ASM_LOAD_POINTER(p9, more)
      OORT_ASM_ROWS_10(OORT_NARROW_OFFSET)
      "lsr %[left], %[depth], #2\n"
      "cbz %[left], 5f\n"
      OORT_ASM_ROWS_10(OORT_NARROW_LOAD)
      "2:\n"
      OORT_ASM_COUNT_DOWN(left)
      "b.eq 3f\n"
      OORT_NARROW_FOUR(OORT_NARROW_LOAD)
      "b 2b\n"
      "3:\n"
      OORT_NARROW_FOUR(OORT_ASM_NOTHING)
      "5:\n"
      "ands %[left], %[depth], #3\n"
      "b.eq 7f\n"
      "6:\n"  // the up to three channels behind the last four
      OORT_ASM_ROWS_10(OORT_NARROW_LOAD_ONE)
      OORT_NARROW_STEP(0, OORT_ASM_NOTHING)
      OORT_ASM_COUNT_DOWN(left)
      "b.ne 6b\n"
      "7:\n"
      OORT_ASM_COUNT_DOWN(taps)
      "b.ne 1b\n"
      "9:\n"
      "cbz %[addend], 10f\n"
      OORT_ASM_ROWS_10(OORT_NARROW_ADD)
      "10:\n"
      "cbz %[limits], 11f\n"
      OORT_ASM_LOAD2(0, 1, limits, 0)
      OORT_ASM_ROWS_10(OORT_NARROW_LIMIT)
      "11:\n"
      OORT_ASM_ROWS_10(OORT_NARROW_STORE)
      : [rows] "+&r"(rows), [more] "+&r"(more), [b] "+&r"(b), [addend] "+&r"(addend), [out] "+&r"(out),
        [taps] "+&r"(taps), [left] "=&r"(left), [p0] "=&r"(p0), [p1] "=&r"(p1), [p2] "=&r"(p2),
        [p3] "=&r"(p3), [p4] "=&r"(p4), [p5] "=&r"(p5), [p6] "=&r"(p6), [p7] "=&r"(p7),
        [p8] "=&r"(p8), [p9] "=&r"(p9)
      : [depth] "r"(tile.depth), [bias] "r"(tile.bias), [stride] "r"(tile.stride * 4),
        [limits] "r"(limits.at), [offset] "r"(tile.offset * 4)
      : "cc", "memory", OORT_ASM_ALL_VECTORS);
}
// clang-format on

}  // namespace oort::OORT_ISA
