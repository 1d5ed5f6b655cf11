// SPDX-License-Identifier: MIT
// Up to five rows by sixteen columns on NEON, multiplying by lanes of A, eight steps of k a turn.
// Only for winograd.simd.cpp, through winograd_tile.h.
//
// Reads up to four floats behind each row of A and eight behind B.
#pragma once

#include <arm_neon.h>

#include <cstdint>

#include "layers/convolution/direct/tile_registers_neon.h"

namespace oort::OORT_ISA {

inline constexpr int kWinogradRows = 5, kWinogradColumns = 16;

template <int rows>
void MultiplySome(const float* a, int64_t lda, int64_t k, const float* b, float* c, int64_t ldc,
                  const float* soon, int64_t soon_step);

// clang-format off
// Names of the sums of row r and column vector j.
#define OORT_W_S00 8
#define OORT_W_S01 9
#define OORT_W_S02 10
#define OORT_W_S03 11
#define OORT_W_S10 12
#define OORT_W_S11 13
#define OORT_W_S12 14
#define OORT_W_S13 15
#define OORT_W_S20 16
#define OORT_W_S21 17
#define OORT_W_S22 18
#define OORT_W_S23 19
#define OORT_W_S30 20
#define OORT_W_S31 21
#define OORT_W_S32 22
#define OORT_W_S33 23
#define OORT_W_S40 24
#define OORT_W_S41 25
#define OORT_W_S42 26
#define OORT_W_S43 27
// The names of sums become numbers on the way.
#define OORT_W_FMA_OF(sum, column, set, row, lane) OORT_T_FMA(sum, column, set, row, lane)
#define OORT_W_FMA(row, j, column, set, lane) OORT_W_FMA_OF(OORT_W_S##row##j, column, set, row, lane)
#define OORT_W_COLUMN(to) OORT_T_COLUMN(to)
#define OORT_W_LOAD(set, row) OORT_T_LOAD(set, row, a##row)
// One vector of columns times n rows.
#define OORT_W_ROWS1(j, b, set, l) OORT_W_FMA(0, j, b, set, l)
#define OORT_W_ROWS2(j, b, set, l) OORT_W_ROWS1(j, b, set, l) OORT_W_FMA(1, j, b, set, l)
#define OORT_W_ROWS3(j, b, set, l) OORT_W_ROWS2(j, b, set, l) OORT_W_FMA(2, j, b, set, l)
#define OORT_W_ROWS4(j, b, set, l) OORT_W_ROWS3(j, b, set, l) OORT_W_FMA(3, j, b, set, l)
#define OORT_W_ROWS5(j, b, set, l) OORT_W_ROWS4(j, b, set, l) OORT_W_FMA(4, j, b, set, l)
#define OORT_W_LOADS1(set) OORT_W_LOAD(set, 0)
#define OORT_W_LOADS2(set) OORT_W_LOADS1(set) OORT_W_LOAD(set, 1)
#define OORT_W_LOADS3(set) OORT_W_LOADS2(set) OORT_W_LOAD(set, 2)
#define OORT_W_LOADS4(set) OORT_W_LOADS3(set) OORT_W_LOAD(set, 3)
#define OORT_W_LOADS5(set) OORT_W_LOADS4(set) OORT_W_LOAD(set, 4)
#define OORT_W_STORE(s0, s1, s2, s3) OORT_T_STORE(c, ldc, s0, s1, s2, s3)
#define OORT_W_STORE1 OORT_W_STORE(8, 9, 10, 11)
#define OORT_W_STORE2 OORT_W_STORE1 OORT_W_STORE(12, 13, 14, 15)
#define OORT_W_STORE3 OORT_W_STORE2 OORT_W_STORE(16, 17, 18, 19)
#define OORT_W_STORE4 OORT_W_STORE3 OORT_W_STORE(20, 21, 22, 23)
#define OORT_W_STORE5 OORT_W_STORE4 OORT_W_STORE(24, 25, 26, 27)
#define OORT_W_ZERO(s0, s1, s2, s3)      \
  "movi v" #s0 ".4s, #0\n" "movi v" #s1 ".4s, #0\n" "movi v" #s2 ".4s, #0\n" "movi v" #s3 ".4s, #0\n"
#define OORT_W_ZERO1 OORT_W_ZERO(8, 9, 10, 11)
#define OORT_W_ZERO2 OORT_W_ZERO1 OORT_W_ZERO(12, 13, 14, 15)
#define OORT_W_ZERO3 OORT_W_ZERO2 OORT_W_ZERO(16, 17, 18, 19)
#define OORT_W_ZERO4 OORT_W_ZERO3 OORT_W_ZERO(20, 21, 22, 23)
#define OORT_W_ZERO5 OORT_W_ZERO4 OORT_W_ZERO(24, 25, 26, 27)
// A step loads row r of the next set, if there are so many rows.
#define OORT_W_NEXT1_0(next) OORT_W_LOAD(next, 0)
#define OORT_W_NEXT1_1(next)
#define OORT_W_NEXT1_2(next)
#define OORT_W_NEXT1_3(next)
#define OORT_W_NEXT1_4(next)
#define OORT_W_NEXT2_0(next) OORT_W_LOAD(next, 0)
#define OORT_W_NEXT2_1(next) OORT_W_LOAD(next, 1)
#define OORT_W_NEXT2_2(next)
#define OORT_W_NEXT2_3(next)
#define OORT_W_NEXT2_4(next)
#define OORT_W_NEXT3_0(next) OORT_W_LOAD(next, 0)
#define OORT_W_NEXT3_1(next) OORT_W_LOAD(next, 1)
#define OORT_W_NEXT3_2(next) OORT_W_LOAD(next, 2)
#define OORT_W_NEXT3_3(next)
#define OORT_W_NEXT3_4(next)
#define OORT_W_NEXT4_0(next) OORT_W_LOAD(next, 0)
#define OORT_W_NEXT4_1(next) OORT_W_LOAD(next, 1)
#define OORT_W_NEXT4_2(next) OORT_W_LOAD(next, 2)
#define OORT_W_NEXT4_3(next) OORT_W_LOAD(next, 3)
#define OORT_W_NEXT4_4(next)
#define OORT_W_NEXT5_0(next) OORT_W_LOAD(next, 0)
#define OORT_W_NEXT5_1(next) OORT_W_LOAD(next, 1)
#define OORT_W_NEXT5_2(next) OORT_W_LOAD(next, 2)
#define OORT_W_NEXT5_3(next) OORT_W_LOAD(next, 3)
#define OORT_W_NEXT5_4(next) OORT_W_LOAD(next, 4)
// Loads stand apart: several in a row would hold up the products.
#define OORT_W_SOON "prfm pldl1keep, [%[soon]]\n add %[soon], %[soon], %[soon_step]\n"
#define OORT_W_STEP(n, set, lane, loads)                                                 \
  OORT_W_ROWS##n(0, 30, set, lane) OORT_W_COLUMN(30)                                     \
  OORT_W_ROWS##n(1, 31, set, lane) OORT_W_COLUMN(31) loads                               \
  OORT_W_ROWS##n(2, 30, set, lane) OORT_W_COLUMN(30) OORT_W_SOON                         \
  OORT_W_ROWS##n(3, 31, set, lane) OORT_W_COLUMN(31)
#define OORT_W_FOUR(n, set, next)                                                        \
  OORT_W_STEP(n, set, 0, OORT_W_NEXT##n##_0(next))                                       \
  OORT_W_STEP(n, set, 1, OORT_W_NEXT##n##_1(next))                                       \
  OORT_W_STEP(n, set, 2, OORT_W_NEXT##n##_2(next) OORT_W_NEXT##n##_4(next))              \
  OORT_W_STEP(n, set, 3, OORT_W_NEXT##n##_3(next))
#define OORT_W_TILE(n)                                                                            \
  template <>                                                                                     \
  inline void MultiplySome<n>(const float* a, int64_t lda, int64_t k, const float* b, float* c,   \
                              int64_t ldc, const float* soon, int64_t soon_step) {                \
    const auto row = [&](int r) { return r < (n) ? a + r * lda : a; };                            \
    const float *a0 = row(0), *a1 = row(1), *a2 = row(2), *a3 = row(3), *a4 = row(4);             \
    asm volatile(                                                                                 \
        OORT_W_ZERO##n OORT_W_COLUMN(30) OORT_W_COLUMN(31)                                        \
        "tbnz %[k], #2, 1f\n"                                                                     \
        OORT_W_LOADS##n(E)                                                              \
        "b 2f\n"                                                                                  \
        "1:\n"                                                                                    \
        OORT_W_LOADS##n(O)                                                               \
        "b 3f\n"                                                                                  \
        "2:\n"                                                                                    \
        OORT_W_FOUR(n, E, O)                                                   \
        "3:\n"                                                                                    \
        OORT_W_FOUR(n, O, E)                                                   \
        "subs %[k], %[k], #8\n"                                                                   \
        "b.gt 2b\n"                                                                               \
        OORT_W_STORE##n                                                                           \
        : [a0] "+r"(a0), [a1] "+r"(a1), [a2] "+r"(a2), [a3] "+r"(a3), [a4] "+r"(a4), [b] "+r"(b), \
          [k] "+r"(k), [c] "+r"(c), [soon] "+r"(soon)                                                                \
        : [ldc] "r"(ldc * 4), [soon_step] "r"(soon_step)                                                                      \
        : "cc", "memory", OORT_T_ALL_VECTORS);                         \
  }

OORT_W_TILE(1)
OORT_W_TILE(2)
OORT_W_TILE(3)
OORT_W_TILE(4)
OORT_W_TILE(5)
// clang-format on

}  // namespace oort::OORT_ISA
