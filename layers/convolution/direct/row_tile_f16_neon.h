// SPDX-License-Identifier: MIT
// The tiles of row_tile_f16.h in assembly. Only through that file, which has the twins in
// intrinsics.
#pragma once

#include "layers/convolution/direct/tile_registers_neon.h"

namespace oort::OORT_ISA {

// clang-format off
// v0 to v5 hold eight channels of each pixel; tile_registers_neon.h names the sums. Of three
// vectors the fourth sum of the first row is free for filters.
#define OORT_F16_FILTERS0 6
#define OORT_F16_FILTERS1 7
#define OORT_F16_FILTERS2 11
#define OORT_F16_LOAD(row) OORT_ASM_LOAD_NEXT(row, p##row)
#define OORT_F16_LOAD_ONE(row) OORT_ASM_LOAD_ONE_NEXT(h, row, p##row, 2)

#define OORT_F16_FMLA(row, lane, vector, filters, load) \
  OORT_ASM_FMLA_F16(OORT_TILE_SUM(row, vector), filters, row, lane) load(row)
/// One vector of filters times a channel of all pixels; `load` brings the pixels' next eight
/// channels. Then the filters after the next are loaded.
#define OORT_F16_VECTOR(lane, vector, filters, load) \
  OORT_ASM_ROWS_6(OORT_F16_FMLA, lane, vector, filters, load) OORT_ASM_LOAD_NEXT(filters, b)

// A step of k with four, three, two vectors and one. The parts of a sum take turns: with two
// vectors steps differ by their number modulo 2, with one vector modulo 4.
#define OORT_F16_STEP4(lane, load)                                       \
  OORT_F16_VECTOR(lane, 0, OORT_F16_FILTERS0, OORT_ASM_NOTHING)          \
  OORT_F16_VECTOR(lane, 1, OORT_F16_FILTERS1, OORT_ASM_NOTHING)          \
  OORT_F16_VECTOR(lane, 2, OORT_F16_FILTERS0, OORT_ASM_NOTHING)          \
  OORT_F16_VECTOR(lane, 3, OORT_F16_FILTERS1, load)
#define OORT_F16_STEP3(lane, load)                                       \
  OORT_F16_VECTOR(lane, 0, OORT_F16_FILTERS0, OORT_ASM_NOTHING)          \
  OORT_F16_VECTOR(lane, 1, OORT_F16_FILTERS1, OORT_ASM_NOTHING)          \
  OORT_F16_VECTOR(lane, 2, OORT_F16_FILTERS2, load)
#define OORT_F16_STEP2_EVEN(lane, load)                                  \
  OORT_F16_VECTOR(lane, 0, OORT_F16_FILTERS0, OORT_ASM_NOTHING)          \
  OORT_F16_VECTOR(lane, 1, OORT_F16_FILTERS1, load)
#define OORT_F16_STEP2_ODD(lane, load)                                   \
  OORT_F16_VECTOR(lane, 2, OORT_F16_FILTERS0, OORT_ASM_NOTHING)          \
  OORT_F16_VECTOR(lane, 3, OORT_F16_FILTERS1, load)
#define OORT_F16_STEP1_0(lane, load) OORT_F16_VECTOR(lane, 0, OORT_F16_FILTERS0, load)
#define OORT_F16_STEP1_1(lane, load) OORT_F16_VECTOR(lane, 1, OORT_F16_FILTERS1, load)
#define OORT_F16_STEP1_2(lane, load) OORT_F16_VECTOR(lane, 2, OORT_F16_FILTERS0, load)
#define OORT_F16_STEP1_3(lane, load) OORT_F16_VECTOR(lane, 3, OORT_F16_FILTERS1, load)

#define OORT_F16_EIGHT(step0, step1, step2, step3, load)                                          \
  step0(0, OORT_ASM_NOTHING) step1(1, OORT_ASM_NOTHING) step2(2, OORT_ASM_NOTHING)                \
  step3(3, OORT_ASM_NOTHING) step0(4, OORT_ASM_NOTHING) step1(5, OORT_ASM_NOTHING)                \
  step2(6, OORT_ASM_NOTHING) step3(7, load)
#define OORT_F16_EIGHT4(load) \
  OORT_F16_EIGHT(OORT_F16_STEP4, OORT_F16_STEP4, OORT_F16_STEP4, OORT_F16_STEP4, load)
#define OORT_F16_EIGHT3(load) \
  OORT_F16_EIGHT(OORT_F16_STEP3, OORT_F16_STEP3, OORT_F16_STEP3, OORT_F16_STEP3, load)
#define OORT_F16_EIGHT2(load) \
  OORT_F16_EIGHT(OORT_F16_STEP2_EVEN, OORT_F16_STEP2_ODD, OORT_F16_STEP2_EVEN, OORT_F16_STEP2_ODD, load)
#define OORT_F16_EIGHT1(load) \
  OORT_F16_EIGHT(OORT_F16_STEP1_0, OORT_F16_STEP1_1, OORT_F16_STEP1_2, OORT_F16_STEP1_3, load)

// A single step, for the channels behind the last eight. With one vector the next filters are in
// the other register then, so that both change places.
#define OORT_F16_ONE4 OORT_F16_STEP4(0, OORT_ASM_NOTHING)
#define OORT_F16_ONE3 OORT_F16_STEP3(0, OORT_ASM_NOTHING)
#define OORT_F16_ONE2 OORT_F16_STEP2_EVEN(0, OORT_ASM_NOTHING)
#define OORT_F16_ONE1                                                                             \
  OORT_F16_STEP1_0(0, OORT_ASM_NOTHING)                                                           \
  OORT_ASM_COPY(5, OORT_F16_FILTERS0) OORT_ASM_COPY(OORT_F16_FILTERS0, OORT_F16_FILTERS1)         \
  OORT_ASM_COPY(OORT_F16_FILTERS1, 5)

// How the sums of a row begin, and how their parts are added up.
#define OORT_F16_ZERO(row, vector) OORT_ASM_SET(8h, OORT_TILE_SUM(row, vector), 0)
#define OORT_F16_BIAS4(row)                                                                       \
  OORT_ASM_LOAD2(OORT_TILE_SUM(row, 0), OORT_TILE_SUM(row, 1), bias, 0)                           \
  OORT_ASM_LOAD2(OORT_TILE_SUM(row, 2), OORT_TILE_SUM(row, 3), bias, 32)
#define OORT_F16_BIAS3(row)                                                                       \
  OORT_ASM_LOAD2(OORT_TILE_SUM(row, 0), OORT_TILE_SUM(row, 1), bias, 0)                           \
  OORT_ASM_LOAD(OORT_TILE_SUM(row, 2), bias, 32)
#define OORT_F16_BIAS2(row)                                                                       \
  OORT_ASM_LOAD2(OORT_TILE_SUM(row, 0), OORT_TILE_SUM(row, 1), bias, 0)                           \
  OORT_F16_ZERO(row, 2) OORT_F16_ZERO(row, 3)
#define OORT_F16_BIAS1(row)                                                                       \
  OORT_ASM_LOAD(OORT_TILE_SUM(row, 0), bias, 0)                                                   \
  OORT_F16_ZERO(row, 1) OORT_F16_ZERO(row, 2) OORT_F16_ZERO(row, 3)
#define OORT_F16_ADD_PART(row, to, from) \
  OORT_ASM_BINARY(fadd, 8h, OORT_TILE_SUM(row, to), OORT_TILE_SUM(row, to), OORT_TILE_SUM(row, from))
#define OORT_F16_JOIN4(row)
#define OORT_F16_JOIN3(row)
#define OORT_F16_JOIN2(row) OORT_F16_ADD_PART(row, 0, 2) OORT_F16_ADD_PART(row, 1, 3)
#define OORT_F16_JOIN1(row) \
  OORT_F16_ADD_PART(row, 0, 1) OORT_F16_ADD_PART(row, 2, 3) OORT_F16_ADD_PART(row, 0, 2)

// What is done to the sum of a vector and a row on its way out, with v0 to v6 free: v4 and v5 hold
// the limits, v6 holds 1/6.
#define OORT_F16_APPLY(name, vector, row, by) \
  OORT_ASM_BINARY(name, 8h, OORT_TILE_SUM(row, vector), OORT_TILE_SUM(row, vector), by)
#define OORT_F16_ADDEND(vector, row) \
  OORT_ASM_LOAD(vector, addend, 16 * vector) OORT_F16_APPLY(fadd, vector, row, vector)
#define OORT_F16_RELU(vector, row) OORT_F16_APPLY(fmax, vector, row, 4)
#define OORT_F16_CLAMP(vector, row) \
  OORT_F16_APPLY(fmax, vector, row, 4) OORT_F16_APPLY(fmin, vector, row, 5)
// x times clamped(x / 6 + 1 / 2)
#define OORT_F16_HARDSWISH(vector, row)                                                           \
  "fmov " OORT_ASM_V(vector) ".8h, #0.5\n"                                                        \
  OORT_ASM_BINARY(fmla, 8h, vector, OORT_TILE_SUM(row, vector), 6)                                \
  OORT_ASM_BINARY(fmax, 8h, vector, vector, 4) OORT_ASM_BINARY(fmin, 8h, vector, vector, 5)       \
  OORT_F16_APPLY(fmul, vector, row, vector)
#define OORT_F16_STORE(vector, row) OORT_ASM_STORE(OORT_TILE_SUM(row, vector), out, 16 * vector)

// apply(vector, row) for all vectors, and `then` behind each row.
#define OORT_F16_ROW(row, vectors, apply, then) OORT_ASM_VECTORS_##vectors(apply, row) then
#define OORT_F16_ROWS(vectors, apply, then) OORT_ASM_ROWS_6(OORT_F16_ROW, vectors, apply, then)
#define OORT_F16_FIRST_FILTERS2 \
  OORT_ASM_LOAD_NEXT(OORT_F16_FILTERS0, b) OORT_ASM_LOAD_NEXT(OORT_F16_FILTERS1, b)
#define OORT_F16_FIRST_FILTERS4 OORT_F16_FIRST_FILTERS2
#define OORT_F16_FIRST_FILTERS3 OORT_F16_FIRST_FILTERS2 OORT_ASM_LOAD_NEXT(OORT_F16_FILTERS2, b)
#define OORT_F16_FIRST_FILTERS1 OORT_F16_FIRST_FILTERS2
#define OORT_F16_OFFSET(row) OORT_ASM_ADVANCE(p##row, offset)
#define OORT_F16_POINTERS                                                                         \
  OORT_ASM_LOAD_POINTERS(p0, p1, rows) OORT_ASM_LOAD_POINTERS(p2, p3, rows)                       \
  OORT_ASM_LOAD_POINTERS(p4, p5, rows) OORT_ASM_ROWS_6(OORT_F16_OFFSET)
// All sums are there, and no other register is in use.
#define OORT_F16_EPILOGUE(vectors)                                                                \
  OORT_ASM_ROWS_6(OORT_F16_JOIN##vectors)                                                         \
  "cbz %[addend], 70f\n"                                                                          \
  OORT_F16_ROWS(vectors, OORT_F16_ADDEND, OORT_ASM_ADVANCE(addend, stride))                       \
  "70:\n"                                                                                         \
  "cbz %[kind], 73f\n"                                                                            \
  OORT_ASM_LOAD2(4, 5, limits, 0)                                                                 \
  "tbnz %[kind], #2, 72f\n"                                                                       \
  "tbnz %[kind], #1, 71f\n"                                                                       \
  OORT_F16_ROWS(vectors, OORT_F16_RELU, )                                                         \
  "b 73f\n"                                                                                       \
  "71:\n"                                                                                         \
  OORT_F16_ROWS(vectors, OORT_F16_CLAMP, )                                                        \
  "b 73f\n"                                                                                       \
  "72:\n"                                                                                         \
  OORT_ASM_LOAD(6, limits, 32)                                                                    \
  OORT_F16_ROWS(vectors, OORT_F16_HARDSWISH, )                                                    \
  "73:\n"
#define OORT_F16_OPERANDS                                                                         \
  : [rows] "+&r"(rows), [b] "+&r"(b), [addend] "+&r"(addend), [out] "+&r"(out), [tap] "+&r"(tap), \
    [left] "=&r"(left), [p0] "=&r"(p0), [p1] "=&r"(p1), [p2] "=&r"(p2), [p3] "=&r"(p3),           \
    [p4] "=&r"(p4), [p5] "=&r"(p5), [tiles] "+&r"(tiles)                                          \
  : [depth] "r"(tile.depth), [bias] "r"(tile.bias), [stride] "r"(tile.stride * 2),                \
    [limits] "r"(tile.limits), [offset] "r"(tile.offset * 2), [taps] "r"(tile.taps),              \
    [weights] "r"(tile.weights), [skip] "r"(skip * 8),                                            \
    [kind] "r"(static_cast<int64_t>(tile.activation))                                             \
  : "cc", "memory", OORT_ASM_ALL_VECTORS

#define OORT_F16_TILE(vectors)                                                                    \
  template <>                                                                                     \
  inline void MultiplyHalfTile<vectors>(const HalfTile& tile) {                                   \
    const Half *const *rows = tile.rows, *b = tile.weights, *addend = tile.addend;                \
    const Half *p0, *p1, *p2, *p3, *p4, *p5;                                                      \
    Half* out = tile.out;                                                                         \
    int64_t tap = tile.taps, left, tiles = 1, skip = 0;                                           \
    asm volatile(                                                                                 \
        OORT_ASM_ROWS_6(OORT_F16_BIAS##vectors)                                                   \
        "cbz %[tap], 9f\n"                                                                        \
        OORT_F16_FIRST_FILTERS##vectors                                                           \
        "1:\n"                                                                                    \
        OORT_F16_POINTERS                                                                         \
        "lsr %[left], %[depth], #3\n"                                                             \
        "cbz %[left], 5f\n"                                                                       \
        OORT_ASM_ROWS_6(OORT_F16_LOAD)                                                            \
        "2:\n"                                                                                    \
        OORT_ASM_COUNT_DOWN(left)                                                                 \
        "b.eq 3f\n"                                                                               \
        OORT_F16_EIGHT##vectors(OORT_F16_LOAD)                                                    \
        "b 2b\n"                                                                                  \
        "3:\n"                                                                                    \
        OORT_F16_EIGHT##vectors(OORT_ASM_NOTHING)                                                 \
        "5:\n"                                                                                    \
        "ands %[left], %[depth], #7\n"                                                            \
        "b.eq 7f\n"                                                                               \
        "6:\n"                                                                                    \
        OORT_ASM_ROWS_6(OORT_F16_LOAD_ONE)                                                        \
        OORT_F16_ONE##vectors                                                                     \
        OORT_ASM_COUNT_DOWN(left)                                                                 \
        "b.ne 6b\n"                                                                               \
        "7:\n"                                                                                    \
        OORT_ASM_COUNT_DOWN(tap)                                                                  \
        "b.ne 1b\n"                                                                               \
        "9:\n"                                                                                    \
        OORT_F16_EPILOGUE(vectors)                                                                \
        OORT_F16_ROWS(vectors, OORT_F16_STORE, OORT_ASM_ADVANCE(out, stride))                     \
        OORT_F16_OPERANDS);                                                                       \
  }
// The pixels of the next tile are loaded before this one is stored: else their latency shows.
#define OORT_F16_RENEW(row, vectors) \
  OORT_ASM_VECTORS_##vectors(OORT_F16_STORE, row) OORT_ASM_ADVANCE(out, stride) OORT_F16_BIAS##vectors(row)
#define OORT_F16_TILES(vectors)                                                                   \
  template <>                                                                                     \
  inline void MultiplyHalfTiles<vectors>(const HalfTile& tile, int64_t tiles, int64_t skip) {     \
    const Half *const *rows = tile.rows, *b = tile.weights, *addend = tile.addend;                \
    const Half *p0, *p1, *p2, *p3, *p4, *p5;                                                      \
    Half* out = tile.out;                                                                         \
    int64_t tap = tile.taps, left;                                                                \
    asm volatile(                                                                                 \
        OORT_F16_POINTERS                                                                         \
        OORT_ASM_ROWS_6(OORT_F16_LOAD)                                                            \
        "lsr %[left], %[depth], #3\n"                                                             \
        OORT_ASM_ROWS_6(OORT_F16_BIAS##vectors)                                                   \
        OORT_F16_FIRST_FILTERS##vectors                                                           \
        "2:\n"                                                                                    \
        OORT_ASM_COUNT_DOWN(left)                                                                 \
        "b.eq 4f\n"                                                                               \
        "3:\n"                                                                                    \
        OORT_F16_EIGHT##vectors(OORT_F16_LOAD)                                                    \
        "b 2b\n"                                                                                  \
        "4:\n"                                                                                    \
        OORT_ASM_COUNT_DOWN(tap)                                                                  \
        "b.eq 5f\n"                                                                               \
        OORT_F16_POINTERS                                                                         \
        "lsr %[left], %[depth], #3\n"                                                             \
        "b 3b\n"                                                                                  \
        "5:\n"                                                                                    \
        OORT_ASM_ADVANCE(rows, skip)                                                              \
        OORT_F16_POINTERS                                                                         \
        OORT_F16_EIGHT##vectors(OORT_ASM_NOTHING)                                                 \
        OORT_F16_EPILOGUE(vectors)                                                                \
        OORT_ASM_ROWS_6(OORT_F16_LOAD)                                                            \
        "mov %[b], %[weights]\n"                                                                  \
        "mov %[tap], %[taps]\n"                                                                   \
        "lsr %[left], %[depth], #3\n"                                                             \
        OORT_ASM_ROWS_6(OORT_F16_RENEW, vectors)                                                  \
        OORT_F16_FIRST_FILTERS##vectors                                                           \
        OORT_ASM_COUNT_DOWN(tiles)                                                                \
        "b.ne 2b\n"                                                                               \
        OORT_F16_OPERANDS);                                                                       \
  }

OORT_F16_TILE(4)
OORT_F16_TILE(3)
OORT_F16_TILE(2)
OORT_F16_TILE(1)
OORT_F16_TILES(4)
OORT_F16_TILES(3)
OORT_F16_TILES(2)
OORT_F16_TILES(1)
// clang-format on

}  // namespace oort::OORT_ISA
