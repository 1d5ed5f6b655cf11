// SPDX-License-Identifier: MIT
// Up to six rows by sixteen columns on NEON, multiplying by lanes of A, four steps of k at a time.
// Only for winograd.simd.cpp, through winograd_tile.h.
#pragma once

#include <arm_neon.h>

#include <cstdint>

namespace oort::OORT_ISA {

inline constexpr int kWinogradRows = 5, kWinogradColumns = 16;

template <int rows>
void MultiplySome(const float* a, int64_t lda, int64_t k, const float* b, float* c, int64_t ldc);

// clang-format off
// v0 to v5: four elements of each row; v6 and v7: columns in turn; v8 to v31: sums, four a row.
// Each load stands behind the last use of its register.
#define OORT_W_FMA(sum, column, row, lane) \
  "fmla v" #sum ".4s, v" #column ".4s, v" #row ".s[" #lane "]\n"
#define OORT_W_COLUMN(to) "ldr q" #to ", [%[b]], #16\n"
#define OORT_W_LOAD(row) "ldr q" #row ", [%[a" #row "]], #16\n"
// ROWSn: one column vector times n rows. RELOADn: the same, each row fetching its next four.
#define OORT_W_ROWS1(b, l, s0, s1, s2, s3, s4, s5) OORT_W_FMA(s0, b, 0, l)
#define OORT_W_ROWS2(b, l, s0, s1, s2, s3, s4, s5) \
  OORT_W_ROWS1(b, l, s0, s1, s2, s3, s4, s5) OORT_W_FMA(s1, b, 1, l)
#define OORT_W_ROWS3(b, l, s0, s1, s2, s3, s4, s5) \
  OORT_W_ROWS2(b, l, s0, s1, s2, s3, s4, s5) OORT_W_FMA(s2, b, 2, l)
#define OORT_W_ROWS4(b, l, s0, s1, s2, s3, s4, s5) \
  OORT_W_ROWS3(b, l, s0, s1, s2, s3, s4, s5) OORT_W_FMA(s3, b, 3, l)
#define OORT_W_ROWS5(b, l, s0, s1, s2, s3, s4, s5) \
  OORT_W_ROWS4(b, l, s0, s1, s2, s3, s4, s5) OORT_W_FMA(s4, b, 4, l)
#define OORT_W_ROWS6(b, l, s0, s1, s2, s3, s4, s5) \
  OORT_W_ROWS5(b, l, s0, s1, s2, s3, s4, s5) OORT_W_FMA(s5, b, 5, l)
#define OORT_W_RELOAD1(b, l, s0, s1, s2, s3, s4, s5) OORT_W_FMA(s0, b, 0, l) OORT_W_LOAD(0)
#define OORT_W_RELOAD2(b, l, s0, s1, s2, s3, s4, s5) \
  OORT_W_RELOAD1(b, l, s0, s1, s2, s3, s4, s5) OORT_W_FMA(s1, b, 1, l) OORT_W_LOAD(1)
#define OORT_W_RELOAD3(b, l, s0, s1, s2, s3, s4, s5) \
  OORT_W_RELOAD2(b, l, s0, s1, s2, s3, s4, s5) OORT_W_FMA(s2, b, 2, l) OORT_W_LOAD(2)
#define OORT_W_RELOAD4(b, l, s0, s1, s2, s3, s4, s5) \
  OORT_W_RELOAD3(b, l, s0, s1, s2, s3, s4, s5) OORT_W_FMA(s3, b, 3, l) OORT_W_LOAD(3)
#define OORT_W_RELOAD5(b, l, s0, s1, s2, s3, s4, s5) \
  OORT_W_RELOAD4(b, l, s0, s1, s2, s3, s4, s5) OORT_W_FMA(s4, b, 4, l) OORT_W_LOAD(4)
#define OORT_W_RELOAD6(b, l, s0, s1, s2, s3, s4, s5) \
  OORT_W_RELOAD5(b, l, s0, s1, s2, s3, s4, s5) OORT_W_FMA(s5, b, 5, l) OORT_W_LOAD(5)
#define OORT_W_FIRST1 OORT_W_LOAD(0)
#define OORT_W_FIRST2 OORT_W_FIRST1 OORT_W_LOAD(1)
#define OORT_W_FIRST3 OORT_W_FIRST2 OORT_W_LOAD(2)
#define OORT_W_FIRST4 OORT_W_FIRST3 OORT_W_LOAD(3)
#define OORT_W_FIRST5 OORT_W_FIRST4 OORT_W_LOAD(4)
#define OORT_W_FIRST6 OORT_W_FIRST5 OORT_W_LOAD(5)
#define OORT_W_STORE(s0, s1, s2, s3)     \
  "stp q" #s0 ", q" #s1 ", [%[c]]\n"     \
  "stp q" #s2 ", q" #s3 ", [%[c], #32]\n" \
  "add %[c], %[c], %[ldc]\n"
#define OORT_W_STORE1 OORT_W_STORE(8, 9, 10, 11)
#define OORT_W_STORE2 OORT_W_STORE1 OORT_W_STORE(12, 13, 14, 15)
#define OORT_W_STORE3 OORT_W_STORE2 OORT_W_STORE(16, 17, 18, 19)
#define OORT_W_STORE4 OORT_W_STORE3 OORT_W_STORE(20, 21, 22, 23)
#define OORT_W_STORE5 OORT_W_STORE4 OORT_W_STORE(24, 25, 26, 27)
#define OORT_W_STORE6 OORT_W_STORE5 OORT_W_STORE(28, 29, 30, 31)
#define OORT_W_ZERO(sum) "movi v" #sum ".4s, #0\n"
#define OORT_W_SUMS0 8, 12, 16, 20, 24, 28
#define OORT_W_SUMS1 9, 13, 17, 21, 25, 29
#define OORT_W_SUMS2 10, 14, 18, 22, 26, 30
#define OORT_W_SUMS3 11, 15, 19, 23, 27, 31
// One more expansion, so that the lists of sums become arguments.
#define OORT_W_CALL(macro, ...) macro(__VA_ARGS__)
#define OORT_W_STEP(n, lane)                                            \
  OORT_W_CALL(OORT_W_ROWS##n, 28, lane, OORT_W_SUMS0) OORT_W_COLUMN(28) \
  OORT_W_CALL(OORT_W_ROWS##n, 29, lane, OORT_W_SUMS1) OORT_W_COLUMN(29) \
  OORT_W_CALL(OORT_W_ROWS##n, 30, lane, OORT_W_SUMS2) OORT_W_COLUMN(30)
#define OORT_W_THREE(n) \
  OORT_W_STEP(n, 0) OORT_W_CALL(OORT_W_ROWS##n, 31, 0, OORT_W_SUMS3) OORT_W_COLUMN(31) \
  OORT_W_STEP(n, 1) OORT_W_CALL(OORT_W_ROWS##n, 31, 1, OORT_W_SUMS3) OORT_W_COLUMN(31) \
  OORT_W_STEP(n, 2) OORT_W_CALL(OORT_W_ROWS##n, 31, 2, OORT_W_SUMS3) OORT_W_COLUMN(31)
#define OORT_W_TILE(n)                                                                          \
  template <>                                                                                   \
  inline void MultiplySome<n>(const float* a, int64_t lda, int64_t k, const float* b, float* c, \
                              int64_t ldc) {                                                    \
    const auto row = [&](int r) { return r < (n) ? a + r * lda : a; };                          \
    const float *a0 = row(0), *a1 = row(1), *a2 = row(2), *a3 = row(3), *a4 = row(4),           \
                *a5 = row(5);                                                                   \
    asm volatile(                                                                               \
        OORT_W_ZERO(8) OORT_W_ZERO(9) OORT_W_ZERO(10) OORT_W_ZERO(11) OORT_W_ZERO(12)           \
        OORT_W_ZERO(13) OORT_W_ZERO(14) OORT_W_ZERO(15) OORT_W_ZERO(16) OORT_W_ZERO(17)         \
        OORT_W_ZERO(18) OORT_W_ZERO(19) OORT_W_ZERO(20) OORT_W_ZERO(21) OORT_W_ZERO(22)         \
        OORT_W_ZERO(23) OORT_W_ZERO(24) OORT_W_ZERO(25) OORT_W_ZERO(26) OORT_W_ZERO(27)         \
        OORT_W_ZERO(28) OORT_W_ZERO(29) OORT_W_ZERO(30) OORT_W_ZERO(31)                         \
        OORT_W_FIRST##n OORT_W_COLUMN(28) OORT_W_COLUMN(29) OORT_W_COLUMN(30) OORT_W_COLUMN(31)                                                       \
        "subs %[k], %[k], #4\n"                                                                 \
        "b.le 2f\n"                                                                             \
        "1:\n"                                                                                  \
        OORT_W_THREE(n) OORT_W_STEP(n, 3)                                                       \
        OORT_W_CALL(OORT_W_RELOAD##n, 31, 3, OORT_W_SUMS3) OORT_W_COLUMN(31)                      \
        "subs %[k], %[k], #4\n"                                                                 \
        "b.gt 1b\n"                                                                             \
        "2:\n"                                                                                  \
        OORT_W_THREE(n) OORT_W_CALL(OORT_W_ROWS##n, 28, 3, OORT_W_SUMS0) OORT_W_CALL(OORT_W_ROWS##n, 29, 3, OORT_W_SUMS1) OORT_W_CALL(OORT_W_ROWS##n, 30, 3, OORT_W_SUMS2) OORT_W_CALL(OORT_W_ROWS##n, 31, 3, OORT_W_SUMS3)                                        \
        OORT_W_STORE##n                                                                         \
        : [a0] "+r"(a0), [a1] "+r"(a1), [a2] "+r"(a2), [a3] "+r"(a3), [a4] "+r"(a4),            \
          [a5] "+r"(a5), [b] "+r"(b), [k] "+r"(k), [c] "+r"(c)                                  \
        : [ldc] "r"(ldc * 4)                                                                    \
        : "cc", "memory", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10",    \
          "v11", "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22",   \
          "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31");                       \
  }

OORT_W_TILE(1)
OORT_W_TILE(2)
OORT_W_TILE(3)
OORT_W_TILE(4)
OORT_W_TILE(5)

// clang-format on

}  // namespace oort::OORT_ISA
