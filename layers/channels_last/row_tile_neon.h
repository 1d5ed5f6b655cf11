// SPDX-License-Identifier: MIT
// Five pixels by sixteen filters on NEON, multiplying by lanes of the pixels. Only for
// row_conv.simd.cpp, through row_tile.h.
#pragma once

#include <arm_neon.h>

#include "layers/channels_last/row_conv_kernels.h"

namespace oort::OORT_ISA {

inline constexpr int kTileRows = 5, kTileVectors = 4, kTileColumns = 16;

// clang-format off
// v8 to v27: sums, four a row; v30 and v31: filters in turn. Four channels of each pixel are used
// while the next four come, so there are two sets of registers for them, E and O: with one the
// latency of the loads shows. Nothing is read behind a row; two vectors behind the weights are.
#define OORT_R_E0 "0"
#define OORT_R_E1 "1"
#define OORT_R_E2 "2"
#define OORT_R_E3 "3"
#define OORT_R_E4 "4"
#define OORT_R_O0 "5"
#define OORT_R_O1 "6"
#define OORT_R_O2 "7"
#define OORT_R_O3 "28"
#define OORT_R_O4 "29"
#define OORT_R_FMA(sum, filter, set, row, lane) \
  "fmla v" #sum ".4s, v" #filter ".4s, v" OORT_R_##set##row ".s[" #lane "]\n"
#define OORT_R_COLUMN(filter, set, lane, s0, s1, s2, s3, s4)                          \
  OORT_R_FMA(s0, filter, set, 0, lane) OORT_R_FMA(s1, filter, set, 1, lane)           \
  OORT_R_FMA(s2, filter, set, 2, lane) OORT_R_FMA(s3, filter, set, 3, lane)           \
  OORT_R_FMA(s4, filter, set, 4, lane) "ldr q" #filter ", [%[b]], #16\n"
#define OORT_R_STEP(set, lane, load)                        \
  OORT_R_COLUMN(30, set, lane, 8, 12, 16, 20, 24)           \
  OORT_R_COLUMN(31, set, lane, 9, 13, 17, 21, 25) load      \
  OORT_R_COLUMN(30, set, lane, 10, 14, 18, 22, 26)          \
  OORT_R_COLUMN(31, set, lane, 11, 15, 19, 23, 27)
#define OORT_R_LOAD(set, row) "ldr q" OORT_R_##set##row ", [%[p" #row "]], #16\n"
#define OORT_R_FOUR(set, next)                                       \
  OORT_R_STEP(set, 0, OORT_R_LOAD(next, 0))                          \
  OORT_R_STEP(set, 1, OORT_R_LOAD(next, 1))                          \
  OORT_R_STEP(set, 2, OORT_R_LOAD(next, 2) OORT_R_LOAD(next, 4))     \
  OORT_R_STEP(set, 3, OORT_R_LOAD(next, 3))
#define OORT_R_LAST_FOUR(set) \
  OORT_R_STEP(set, 0, ) OORT_R_STEP(set, 1, ) OORT_R_STEP(set, 2, ) OORT_R_STEP(set, 3, )
#define OORT_R_FIRST(s0, s1, s2, s3)            \
  "ldp q" #s0 ", q" #s1 ", [%[bias]]\n"         \
  "ldp q" #s2 ", q" #s3 ", [%[bias], #32]\n"
#define OORT_R_ADD(s0, s1, s2, s3)                                                    \
  "ldp q0, q1, [%[addend]]\n"                                                         \
  "ldp q2, q3, [%[addend], #32]\n"                                                    \
  "add %[addend], %[addend], %[addend_stride]\n"                                      \
  "fadd v" #s0 ".4s, v" #s0 ".4s, v0.4s\n" "fadd v" #s1 ".4s, v" #s1 ".4s, v1.4s\n"   \
  "fadd v" #s2 ".4s, v" #s2 ".4s, v2.4s\n" "fadd v" #s3 ".4s, v" #s3 ".4s, v3.4s\n"
#define OORT_R_LIMIT(sum) \
  "fmax v" #sum ".4s, v" #sum ".4s, v0.4s\n" "fmin v" #sum ".4s, v" #sum ".4s, v1.4s\n"
#define OORT_R_LIMITS(s0, s1, s2, s3) \
  OORT_R_LIMIT(s0) OORT_R_LIMIT(s1) OORT_R_LIMIT(s2) OORT_R_LIMIT(s3)
#define OORT_R_STORE(s0, s1, s2, s3)            \
  "stp q" #s0 ", q" #s1 ", [%[out]]\n"          \
  "stp q" #s2 ", q" #s3 ", [%[out], #32]\n"     \
  "add %[out], %[out], %[out_stride]\n"
#define OORT_R_EACH_ROW(apply)                                                       \
  apply(8, 9, 10, 11) apply(12, 13, 14, 15) apply(16, 17, 18, 19) apply(20, 21, 22, 23) \
  apply(24, 25, 26, 27)

inline void ComputeRows(const RowTile& tile) {
  const float* const* rows = tile.rows;
  const float *b = tile.weights, *addend = tile.addend, *p0, *p1, *p2, *p3, *p4;
  float* out = tile.out;
  int64_t taps = tile.taps, left;
  const float limits[2] = {tile.low, tile.high};
  asm volatile(
      OORT_R_EACH_ROW(OORT_R_FIRST)
      "cbz %[taps], 9f\n"
      "ldr q30, [%[b]], #16\n"
      "ldr q31, [%[b]], #16\n"
      "1:\n"  // a tap
      "ldp %[p0], %[p1], [%[rows]], #16\n"
      "ldp %[p2], %[p3], [%[rows]], #16\n"
      "ldr %[p4], [%[rows]], #8\n"
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
      "cbz %[addend], 10f\n"
      OORT_R_EACH_ROW(OORT_R_ADD)
      "10:\n"
      "cbz %w[clamp], 11f\n"
      "ldp s0, s1, [%[limits]]\n"
      "dup v0.4s, v0.s[0]\n"
      "dup v1.4s, v1.s[0]\n"
      OORT_R_EACH_ROW(OORT_R_LIMITS)
      "11:\n"
      OORT_R_EACH_ROW(OORT_R_STORE)
      : [rows] "+r"(rows), [b] "+r"(b), [addend] "+r"(addend), [out] "+r"(out), [taps] "+r"(taps),
        [left] "=&r"(left), [p0] "=&r"(p0), [p1] "=&r"(p1), [p2] "=&r"(p2), [p3] "=&r"(p3),
        [p4] "=&r"(p4)
      : [depth] "r"(tile.depth), [bias] "r"(tile.bias), [addend_stride] "r"(tile.addend_stride * 4),
        [out_stride] "r"(tile.out_stride * 4), [limits] "r"(limits),
        [clamp] "r"(static_cast<int>(tile.clamp))
      : "cc", "memory", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11",
        "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24",
        "v25", "v26", "v27", "v28", "v29", "v30", "v31");
}
// clang-format on

#undef OORT_R_E0
#undef OORT_R_E1
#undef OORT_R_E2
#undef OORT_R_E3
#undef OORT_R_E4
#undef OORT_R_O0
#undef OORT_R_O1
#undef OORT_R_O2
#undef OORT_R_O3
#undef OORT_R_O4
#undef OORT_R_FMA
#undef OORT_R_COLUMN
#undef OORT_R_STEP
#undef OORT_R_LOAD
#undef OORT_R_FOUR
#undef OORT_R_LAST_FOUR
#undef OORT_R_FIRST
#undef OORT_R_ADD
#undef OORT_R_LIMIT
#undef OORT_R_LIMITS
#undef OORT_R_STORE
#undef OORT_R_EACH_ROW

}  // namespace oort::OORT_ISA
