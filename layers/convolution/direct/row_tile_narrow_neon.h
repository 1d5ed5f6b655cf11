// SPDX-License-Identifier: MIT
// Ten pixels by eight filters on NEON: as row_tile_neon.h, through which it comes, for a last panel
// of which no more is wanted.
#pragma once

#include <cstdint>

namespace oort::OORT_ISA {

// clang-format off
// v0 to v9: four channels of each pixel; v10 and v11: filters; v12 to v31: sums, two a row.
#define OORT_N_LOAD(row) "ldr q" #row ", [%[p" #row "]], #16\n"
#define OORT_N_MOVE(row) "add %[p" #row "], %[p" #row "], %[offset]\n"
#define OORT_N_ONE(row) "ldr s" #row ", [%[p" #row "]], #4\n"
#define OORT_N_NONE(row)
#define OORT_N_LOW(row, sum, lane) "fmla v" #sum ".4s, v10.4s, v" #row ".s[" #lane "]\n"
#define OORT_N_HIGH(row, sum, lane, load) \
  "fmla v" #sum ".4s, v11.4s, v" #row ".s[" #lane "]\n" load(row)
#define OORT_N_STEP(lane, load)                                                       \
  OORT_N_LOW(0, 12, lane) OORT_N_LOW(1, 14, lane) OORT_N_LOW(2, 16, lane)             \
  OORT_N_LOW(3, 18, lane) OORT_N_LOW(4, 20, lane) OORT_N_LOW(5, 22, lane)             \
  OORT_N_LOW(6, 24, lane) OORT_N_LOW(7, 26, lane) OORT_N_LOW(8, 28, lane)             \
  OORT_N_LOW(9, 30, lane) "ldr q10, [%[b]], #16\n"                                    \
  OORT_N_HIGH(0, 13, lane, load) OORT_N_HIGH(1, 15, lane, load)                       \
  OORT_N_HIGH(2, 17, lane, load) OORT_N_HIGH(3, 19, lane, load)                       \
  OORT_N_HIGH(4, 21, lane, load) OORT_N_HIGH(5, 23, lane, load)                       \
  OORT_N_HIGH(6, 25, lane, load) OORT_N_HIGH(7, 27, lane, load)                       \
  OORT_N_HIGH(8, 29, lane, load) OORT_N_HIGH(9, 31, lane, load) "ldr q11, [%[b]], #16\n"
#define OORT_N_FOUR(load)                                               \
  OORT_N_STEP(0, OORT_N_NONE) OORT_N_STEP(1, OORT_N_NONE) OORT_N_STEP(2, OORT_N_NONE) \
  OORT_N_STEP(3, load)
#define OORT_N_ROWS(apply) \
  apply(0) apply(1) apply(2) apply(3) apply(4) apply(5) apply(6) apply(7) apply(8) apply(9)
#define OORT_N_SUMS(apply)                                              \
  apply(12, 13) apply(14, 15) apply(16, 17) apply(18, 19) apply(20, 21) \
  apply(22, 23) apply(24, 25) apply(26, 27) apply(28, 29) apply(30, 31)
#define OORT_N_FIRST(s0, s1) "ldp q" #s0 ", q" #s1 ", [%[bias]]\n"
#define OORT_N_ADD(s0, s1)                                              \
  "ldp q0, q1, [%[addend]]\n"                                           \
  "add %[addend], %[addend], %[stride]\n"                               \
  "fadd v" #s0 ".4s, v" #s0 ".4s, v0.4s\n" "fadd v" #s1 ".4s, v" #s1 ".4s, v1.4s\n"
#define OORT_N_LIMIT(sum) \
  "fmax v" #sum ".4s, v" #sum ".4s, v0.4s\n" "fmin v" #sum ".4s, v" #sum ".4s, v1.4s\n"
#define OORT_N_LIMITS(s0, s1) OORT_N_LIMIT(s0) OORT_N_LIMIT(s1)
#define OORT_N_STORE(s0, s1) \
  "stp q" #s0 ", q" #s1 ", [%[out]]\n" "add %[out], %[out], %[stride]\n"

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
      OORT_N_SUMS(OORT_N_FIRST)
      "cbz %[taps], 9f\n"
      "ldr q10, [%[b]], #16\n"
      "ldr q11, [%[b]], #16\n"
      "1:\n"  // a tap
      "ldp %[p0], %[p1], [%[rows]], #16\n"
      "ldp %[p2], %[p3], [%[rows]], #16\n"
      "ldr %[p4], [%[rows]], #8\n"
      "ldp %[p5], %[p6], [%[more]], #16\n"
      "ldp %[p7], %[p8], [%[more]], #16\n"
      "ldr %[p9], [%[more]], #8\n"
      OORT_N_ROWS(OORT_N_MOVE)
      "lsr %[left], %[depth], #2\n"
      "cbz %[left], 5f\n"
      OORT_N_ROWS(OORT_N_LOAD)
      "2:\n"
      "subs %[left], %[left], #1\n"
      "b.eq 3f\n"
      OORT_N_FOUR(OORT_N_LOAD)
      "b 2b\n"
      "3:\n"
      OORT_N_FOUR(OORT_N_NONE)
      "5:\n"
      "ands %[left], %[depth], #3\n"
      "b.eq 7f\n"
      "6:\n"  // channels that are no four
      OORT_N_ROWS(OORT_N_ONE)
      OORT_N_STEP(0, OORT_N_NONE)
      "subs %[left], %[left], #1\n"
      "b.ne 6b\n"
      "7:\n"
      "subs %[taps], %[taps], #1\n"
      "b.ne 1b\n"
      "9:\n"
      "cbz %[addend], 10f\n"
      OORT_N_SUMS(OORT_N_ADD)
      "10:\n"
      "cbz %[limits], 11f\n"
      "ldp q0, q1, [%[limits]]\n"
      OORT_N_SUMS(OORT_N_LIMITS)
      "11:\n"
      OORT_N_SUMS(OORT_N_STORE)
      : [rows] "+&r"(rows), [more] "+&r"(more), [b] "+&r"(b), [addend] "+&r"(addend), [out] "+&r"(out),
        [taps] "+&r"(taps), [left] "=&r"(left), [p0] "=&r"(p0), [p1] "=&r"(p1), [p2] "=&r"(p2),
        [p3] "=&r"(p3), [p4] "=&r"(p4), [p5] "=&r"(p5), [p6] "=&r"(p6), [p7] "=&r"(p7),
        [p8] "=&r"(p8), [p9] "=&r"(p9)
      : [depth] "r"(tile.depth), [bias] "r"(tile.bias), [stride] "r"(tile.stride * 4),
        [limits] "r"(limits.at), [offset] "r"(tile.offset * 4)
      : "cc", "memory", OORT_T_ALL_VECTORS);
}
// clang-format on

#undef OORT_N_LOAD
#undef OORT_N_ONE
#undef OORT_N_NONE
#undef OORT_N_LOW
#undef OORT_N_HIGH
#undef OORT_N_STEP
#undef OORT_N_FOUR
#undef OORT_N_ROWS
#undef OORT_N_SUMS
#undef OORT_N_FIRST
#undef OORT_N_ADD
#undef OORT_N_LIMITS
#undef OORT_N_STORE
#undef OORT_N_MOVE
#undef OORT_N_LIMIT

}  // namespace oort::OORT_ISA
