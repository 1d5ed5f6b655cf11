// SPDX-License-Identifier: MIT
// Five pixels by sixteen filters on NEON, or ten by eight, multiplying by lanes of the pixels. Only
// for row_block.h, through row_tile.h.
#pragma once

#include <arm_neon.h>

#include <cstdint>

#include "layers/convolution/direct/tile_registers_neon.h"

namespace oort::OORT_ISA {

inline constexpr int kTileRows = 5, kTileVectors = 4, kTileColumns = 16, kTileGranule = 8;
template <int vectors>
inline constexpr int kRowsOf = vectors == 2 ? 10 : 5;  // twenty sums in both cases
inline constexpr bool kInnerTiles = true, kAnyRows = false, kMasked = false;
template <int vectors>
inline void ComputeSome(const RowTile&, int64_t) {}

template <int vectors>
void ComputeRows(const RowTile& tile);

/// Two vectors, or none.
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
// Up to three floats are read behind a row whose length is no multiple of four, and two vectors
// behind the weights.
#define OORT_R_COLUMN(filter, set, lane, s0, s1, s2, s3, s4)                          \
  OORT_T_FMA(s0, filter, set, 0, lane) OORT_T_FMA(s1, filter, set, 1, lane)           \
  OORT_T_FMA(s2, filter, set, 2, lane) OORT_T_FMA(s3, filter, set, 3, lane)           \
  OORT_T_FMA(s4, filter, set, 4, lane) OORT_T_COLUMN(filter)
#define OORT_R_STEP(set, lane, load)                        \
  OORT_R_COLUMN(30, set, lane, 8, 12, 16, 20, 24)           \
  OORT_R_COLUMN(31, set, lane, 9, 13, 17, 21, 25) load      \
  OORT_R_COLUMN(30, set, lane, 10, 14, 18, 22, 26)          \
  OORT_R_COLUMN(31, set, lane, 11, 15, 19, 23, 27)
#define OORT_R_LOAD(set, row) OORT_T_LOAD(set, row, p##row)
#define OORT_R_FOUR(set, next)                                       \
  OORT_R_STEP(set, 0, OORT_R_LOAD(next, 0))                          \
  OORT_R_STEP(set, 1, OORT_R_LOAD(next, 1))                          \
  OORT_R_STEP(set, 2, OORT_R_LOAD(next, 2) OORT_R_LOAD(next, 4))     \
  OORT_R_STEP(set, 3, OORT_R_LOAD(next, 3))
// The last of a row may be fewer than four.
#define OORT_R_FOUR1(set, next)                                                              \
  OORT_R_STEP(set, 0, OORT_R_LOAD(next, 0) OORT_R_LOAD(next, 1) OORT_R_LOAD(next, 2)         \
                      OORT_R_LOAD(next, 3) OORT_R_LOAD(next, 4))
#define OORT_R_FOUR2(set, next)                                                              \
  OORT_R_STEP(set, 0, OORT_R_LOAD(next, 0) OORT_R_LOAD(next, 1) OORT_R_LOAD(next, 4))        \
  OORT_R_STEP(set, 1, OORT_R_LOAD(next, 2) OORT_R_LOAD(next, 3))
#define OORT_R_FOUR3(set, next)                                                              \
  OORT_R_STEP(set, 0, OORT_R_LOAD(next, 0) OORT_R_LOAD(next, 1))                             \
  OORT_R_STEP(set, 1, OORT_R_LOAD(next, 2) OORT_R_LOAD(next, 4))                             \
  OORT_R_STEP(set, 2, OORT_R_LOAD(next, 3))
#define OORT_R_LAST_FOUR(set) \
  OORT_R_STEP(set, 0, ) OORT_R_STEP(set, 1, ) OORT_R_STEP(set, 2, ) OORT_R_STEP(set, 3, )
#define OORT_R_POINTERS                      \
  "ldp %[p0], %[p1], [%[rows]], #16\n"       \
  "ldp %[p2], %[p3], [%[rows]], #16\n"       \
  "ldr %[p4], [%[rows]], #8\n"               \
  "add %[p0], %[p0], %[offset]\n"            \
  "add %[p1], %[p1], %[offset]\n"            \
  "add %[p2], %[p2], %[offset]\n"            \
  "add %[p3], %[p3], %[offset]\n"            \
  "add %[p4], %[p4], %[offset]\n"
#define OORT_R_FIRST(s0, s1, s2, s3)            \
  "ldp q" #s0 ", q" #s1 ", [%[bias]]\n"         \
  "ldp q" #s2 ", q" #s3 ", [%[bias], #32]\n"
// With registers t0 to t3 that hold nothing else then.
#define OORT_R_ADD(t0, t1, t2, t3, s0, s1, s2, s3)                                               \
  "ldp q" #t0 ", q" #t1 ", [%[addend]]\n"                                                        \
  "ldp q" #t2 ", q" #t3 ", [%[addend], #32]\n"                                                   \
  "add %[addend], %[addend], %[stride]\n"                                                        \
  "fadd v" #s0 ".4s, v" #s0 ".4s, v" #t0 ".4s\n" "fadd v" #s1 ".4s, v" #s1 ".4s, v" #t1 ".4s\n"   \
  "fadd v" #s2 ".4s, v" #s2 ".4s, v" #t2 ".4s\n" "fadd v" #s3 ".4s, v" #s3 ".4s, v" #t3 ".4s\n"
#define OORT_R_LIMIT(limit, by, sum) #limit " v" #sum ".4s, v" #sum ".4s, v" #by ".4s\n"
#define OORT_R_LIMIT_ROW(limit, by, s0, s1, s2, s3)                                        \
  OORT_R_LIMIT(limit, by, s0) OORT_R_LIMIT(limit, by, s1)                                  \
  OORT_R_LIMIT(limit, by, s2) OORT_R_LIMIT(limit, by, s3)
#define OORT_R_LIMITS(limit, by)                                                           \
  OORT_R_LIMIT_ROW(limit, by, 8, 9, 10, 11) OORT_R_LIMIT_ROW(limit, by, 12, 13, 14, 15)    \
  OORT_R_LIMIT_ROW(limit, by, 16, 17, 18, 19) OORT_R_LIMIT_ROW(limit, by, 20, 21, 22, 23)  \
  OORT_R_LIMIT_ROW(limit, by, 24, 25, 26, 27)
// `added` comes behind the addend, `bounded` leaves where there is no upper limit.
#define OORT_R_EPILOGUE(t0, t1, t2, t3, added, bounded)                                     \
  "cbz %[addend], 70f\n"                                                                    \
  OORT_R_ADD(t0, t1, t2, t3, 8, 9, 10, 11) OORT_R_ADD(t0, t1, t2, t3, 12, 13, 14, 15)       \
  OORT_R_ADD(t0, t1, t2, t3, 16, 17, 18, 19) OORT_R_ADD(t0, t1, t2, t3, 20, 21, 22, 23)     \
  OORT_R_ADD(t0, t1, t2, t3, 24, 25, 26, 27) added                                          \
  "70:\n"                                                                                   \
  "cbz %[limits], 71f\n"                                                                    \
  "ldp q" #t0 ", q" #t1 ", [%[limits]]\n"                                                   \
  OORT_R_LIMITS(fmax, t0) bounded OORT_R_LIMITS(fmin, t1)                                   \
  "71:\n"
#define OORT_R_STORE(s0, s1, s2, s3) OORT_T_STORE(out, stride, s0, s1, s2, s3)
#define OORT_R_EACH_ROW(apply)                                                       \
  apply(8, 9, 10, 11) apply(12, 13, 14, 15) apply(16, 17, 18, 19) apply(20, 21, 22, 23) \
  apply(24, 25, 26, 27)

template <>
inline void ComputeRows<4>(const RowTile& tile) {
  const float* const* rows = tile.rows;
  const float *b = tile.weights, *addend = tile.addend, *p0, *p1, *p2, *p3, *p4;
  float* out = tile.out;
  int64_t taps = tile.taps, left;
  const TileLimits limits(tile);
  asm volatile(
      OORT_R_EACH_ROW(OORT_R_FIRST)
      "cbz %[taps], 9f\n"
      "ldr q30, [%[b]], #16\n"
      "ldr q31, [%[b]], #16\n"
      "1:\n"  // a tap
      OORT_R_POINTERS
      "lsr %[left], %[depth], #2\n"
      "cbz %[left], 5f\n"
      OORT_R_LOAD(E, 0) OORT_R_LOAD(E, 1) OORT_R_LOAD(E, 2) OORT_R_LOAD(E, 3) OORT_R_LOAD(E, 4)
      "2:\n"
      "subs %[left], %[left], #1\n"
      "b.eq 3f\n"
      OORT_R_FOUR(E, O)
      "subs %[left], %[left], #1\n"
      "b.eq 4f\n"
      OORT_R_FOUR(O, E)
      "b 2b\n"
      "3:\n"
      OORT_R_LAST_FOUR(E)
      "b 5f\n"
      "4:\n"
      OORT_R_LAST_FOUR(O)
      "5:\n"
      "ands %[left], %[depth], #3\n"
      "b.eq 7f\n"
      "6:\n"  // channels that are no four
      "ldr s0, [%[p0]], #4\n"
      "ldr s1, [%[p1]], #4\n"
      "ldr s2, [%[p2]], #4\n"
      "ldr s3, [%[p3]], #4\n"
      "ldr s4, [%[p4]], #4\n"
      OORT_R_STEP(E, 0, )
      "subs %[left], %[left], #1\n"
      "b.ne 6b\n"
      "7:\n"
      "subs %[taps], %[taps], #1\n"
      "b.ne 1b\n"
      "9:\n"
      OORT_R_EPILOGUE(0, 1, 2, 3, , )
      OORT_R_EACH_ROW(OORT_R_STORE)
      : [rows] "+&r"(rows), [b] "+&r"(b), [addend] "+&r"(addend), [out] "+&r"(out), [taps] "+&r"(taps),
        [left] "=&r"(left), [p0] "=&r"(p0), [p1] "=&r"(p1), [p2] "=&r"(p2), [p3] "=&r"(p3),
        [p4] "=&r"(p4)
      : [depth] "r"(tile.depth), [bias] "r"(tile.bias), [stride] "r"(tile.stride * 4),
        [limits] "r"(limits.at), [offset] "r"(tile.offset * 4)
      : "cc", "memory", OORT_T_ALL_VECTORS);
}

// While the last four channels of a tap are used, the first of the next tap or tile come already:
// else its latencies show, as long as ten channels take.
#define OORT_R_NEXT_TAP                      \
  "subs %[tap], %[tap], #1\n"                \
  "csel %[p0], %[skip], xzr, eq\n"           \
  "add %[rows], %[rows], %[p0]\n"            \
  OORT_R_POINTERS                            \
  "ldr %[left], [%[counts]]\n"
// A panel comes from far away while the one before is used.
#define OORT_R_SOON "prfm pldl2keep, [%[soon]]\n add %[soon], %[soon], %[soon_step]\n"
// What the next tile adds comes while its products are made.
#define OORT_R_NEXT_ADDENDS                                                                   \
  "prfm pldl1keep, [%[addend]]\n"                                                             \
  "prfm pldl1keep, [%[addend], %[stride]]\n"                                                  \
  "add %[ahead], %[addend], %[stride], lsl #1\n"                                              \
  "prfm pldl1keep, [%[ahead]]\n"                                                              \
  "prfm pldl1keep, [%[ahead], %[stride]]\n"                                                   \
  "add %[ahead], %[ahead], %[stride], lsl #1\n"                                               \
  "prfm pldl1keep, [%[ahead]]\n"
#define OORT_R_BOUNDED "ldr %[ahead], [%[counts], #16]\n cbz %[ahead], 71f\n"
#define OORT_R_RENEW(s0, s1, s2, s3) OORT_R_STORE(s0, s1, s2, s3) OORT_R_FIRST(s0, s1, s2, s3)
#define OORT_R_FINISH(t0, t1, t2, t3)                           \
  "mov %[b], %[weights]\n"                                      \
  "ldr q30, [%[b]], #16\n"                                      \
  "ldr q31, [%[b]], #16\n"                                      \
  "ldr %[tap], [%[counts], #8]\n"                               \
  "sub %[tiles], %[tiles], #1\n"                                \
  OORT_R_EPILOGUE(t0, t1, t2, t3, OORT_R_NEXT_ADDENDS, OORT_R_BOUNDED)                         \
  OORT_R_EACH_ROW(OORT_R_RENEW)

// `last` are the last channels of a tap: four, or the fewer that are left.
#define OORT_R_COMPUTE_TILES(last)                                                             \
  asm volatile(                                                                                \
      OORT_R_EACH_ROW(OORT_R_FIRST)                                                            \
      "ldr q30, [%[b]], #16\n"                                                                 \
      "ldr q31, [%[b]], #16\n"                                                                 \
      OORT_R_POINTERS                                                                          \
      OORT_R_LOAD(E, 0) OORT_R_LOAD(E, 1) OORT_R_LOAD(E, 2) OORT_R_LOAD(E, 3) OORT_R_LOAD(E, 4) \
      "2:\n"                                                                                   \
      "subs %[left], %[left], #1\n"                                                            \
      "b.eq 4f\n"                                                                              \
      OORT_R_SOON                                                                              \
      OORT_R_FOUR(E, O)                                                                        \
      "3:\n"                                                                                   \
      "subs %[left], %[left], #1\n"                                                            \
      "b.eq 5f\n"                                                                              \
      OORT_R_SOON                                                                              \
      OORT_R_FOUR(O, E)                                                                        \
      "b 2b\n"                                                                                 \
      "4:\n" /* the last of a tap */                                                           \
      OORT_R_NEXT_TAP                                                                          \
      OORT_R_SOON                                                                              \
      last(E, O)                                                                               \
      "cbnz %[tap], 3b\n"                                                                      \
      OORT_R_FINISH(0, 1, 2, 3)                                                                \
      "cbnz %[tiles], 3b\n"                                                                    \
      "b 6f\n"                                                                                 \
      "5:\n"                                                                                   \
      OORT_R_NEXT_TAP                                                                          \
      OORT_R_SOON                                                                              \
      last(O, E)                                                                               \
      "cbnz %[tap], 2b\n"                                                                      \
      OORT_R_FINISH(5, 6, 7, 28)                                                               \
      "cbnz %[tiles], 2b\n"                                                                    \
      "6:\n"                                                                                   \
      : [rows] "+&r"(rows), [b] "+&r"(b), [addend] "+&r"(addend), [out] "+&r"(out),            \
        [tap] "+&r"(tap), [left] "+&r"(left), [tiles] "+&r"(tiles), [soon] "+&r"(soon),        \
        [p0] "=&r"(p0), [p1] "=&r"(p1), [p2] "=&r"(p2), [p3] "=&r"(p3), [p4] "=&r"(p4),        \
        [ahead] "=&r"(ahead)                                                                   \
      : [counts] "r"(counts), [skip] "r"(skip * 8), [weights] "r"(tile.weights),               \
        [bias] "r"(tile.bias), [stride] "r"(tile.stride * 4), [limits] "r"(limits.at),         \
        [offset] "r"(tile.offset * 4), [soon_step] "r"(soon_step)                              \
      : "cc", "memory", OORT_T_ALL_VECTORS)

inline void ComputeTiles(const RowTile& tile, int64_t tiles, int64_t skip) {
  const float* const* rows = tile.rows;
  const float *b = tile.weights, *addend = tile.addend, *p0, *p1, *p2, *p3, *p4, *ahead;
  float* out = tile.out;
  const int64_t bounded = tile.high < __builtin_inff() ? 1 : 0;
  // An asm takes thirty operands: these come from memory.
  const int64_t counts[3] = {(tile.depth + 3) / 4, tile.taps, bounded};
  int64_t left = counts[0], tap = counts[1];
  // What follows in the weights is used next: a part of a line for each four of a tile.
  const float* soon = b + tile.taps * tile.depth * kTileColumns;
  const int64_t soon_step = 4 * kTileColumns * 4 / tiles;
  const TileLimits limits(tile);
  switch (tile.depth % 4) {
    case 0: OORT_R_COMPUTE_TILES(OORT_R_FOUR); break;
    case 1: OORT_R_COMPUTE_TILES(OORT_R_FOUR1); break;
    case 2: OORT_R_COMPUTE_TILES(OORT_R_FOUR2); break;
    default: OORT_R_COMPUTE_TILES(OORT_R_FOUR3); break;
  }
}
// clang-format on

#undef OORT_R_COLUMN
#undef OORT_R_STEP
#undef OORT_R_LOAD
#undef OORT_R_FOUR
#undef OORT_R_LAST_FOUR
#undef OORT_R_FOUR1
#undef OORT_R_FOUR2
#undef OORT_R_FOUR3
#undef OORT_R_FIRST
#undef OORT_R_ADD
#undef OORT_R_LIMIT
#undef OORT_R_LIMITS
#undef OORT_R_LIMIT_ROW
#undef OORT_R_BOUNDED
#undef OORT_R_STORE
#undef OORT_R_EACH_ROW
#undef OORT_R_EPILOGUE
#undef OORT_R_POINTERS
#undef OORT_R_NEXT_TAP
#undef OORT_R_SOON
#undef OORT_R_RENEW
#undef OORT_R_FINISH
#undef OORT_R_NEXT_ADDENDS
#undef OORT_R_COMPUTE_TILES

}  // namespace oort::OORT_ISA

#include "layers/convolution/direct/row_tile_narrow_neon.h"
