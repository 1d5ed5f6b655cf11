// SPDX-License-Identifier: MIT
// Up to five rows by sixteen columns in assembly, multiplying by lanes of A, eight steps of k a
// turn. Only for winograd.lanes.cpp, through winograd_tile.h, which has the twins in intrinsics.
//
// Reads up to four floats behind each row of A and eight behind B.
#pragma once

#include <cstdint>

#include "layers/convolution/direct/tile_registers_neon.h"

namespace oort::OORT_ISA {

template <int rows>
void MultiplySome(const float* a, int64_t lda, int64_t k, const float* b, float* c, int64_t ldc,
                  const float* soon, int64_t soon_step);

// clang-format off
#define OORT_WINO_LOAD(row, set) OORT_ASM_LOAD_NEXT(OORT_TILE_ELEMENTS(set, row), a##row)
#define OORT_WINO_ZERO_ONE(vector, row) OORT_ASM_SET(4s, OORT_TILE_SUM(row, vector), 0)
#define OORT_WINO_ZERO(row) OORT_ASM_VECTORS_4(OORT_WINO_ZERO_ONE, row)
#define OORT_WINO_STORE(row) OORT_TILE_STORE(row, c, ldc)
#define OORT_WINO_FETCH OORT_ASM_PREFETCH(pldl1keep, soon, 0) OORT_ASM_ADVANCE(soon, soon_step)
// The rows whose next four elements a step loads.
#define OORT_WINO_NONE(next)
#define OORT_WINO_ROW0(next) OORT_WINO_LOAD(0, next)
#define OORT_WINO_ROW1(next) OORT_WINO_LOAD(1, next)
#define OORT_WINO_ROW2(next) OORT_WINO_LOAD(2, next)
#define OORT_WINO_ROW3(next) OORT_WINO_LOAD(3, next)
#define OORT_WINO_ROWS24(next) OORT_WINO_LOAD(2, next) OORT_WINO_LOAD(4, next)
// Four steps of k of n rows, which load the rows loads0 to loads3.
#define OORT_WINO_FOUR(n, set, next, loads0, loads1, loads2, loads3)                     \
  OORT_TILE_STEP(n, set, 0, OORT_WINO_##loads0(next), OORT_WINO_FETCH)                   \
  OORT_TILE_STEP(n, set, 1, OORT_WINO_##loads1(next), OORT_WINO_FETCH)                   \
  OORT_TILE_STEP(n, set, 2, OORT_WINO_##loads2(next), OORT_WINO_FETCH)                   \
  OORT_TILE_STEP(n, set, 3, OORT_WINO_##loads3(next), OORT_WINO_FETCH)
#define OORT_WINO_TILE(n, loads0, loads1, loads2, loads3)                                         \
  template <>                                                                                     \
  inline void MultiplySome<n>(const float* a, int64_t lda, int64_t k, const float* b, float* c,   \
                              int64_t ldc, const float* soon, int64_t soon_step) {                \
    const auto row = [&](int r) { return r < (n) ? a + r * lda : a; };                            \
    const float *a0 = row(0), *a1 = row(1), *a2 = row(2), *a3 = row(3), *a4 = row(4);             \
    asm volatile(                                                                                 \
        OORT_ASM_ROWS_##n(OORT_WINO_ZERO) OORT_TILE_FIRST_COLUMNS                                 \
        "tbnz %[k], #2, 1f\n"                                                                     \
        OORT_ASM_ROWS_##n(OORT_WINO_LOAD, E)                                                      \
        "b 2f\n"                                                                                  \
        "1:\n"                                                                                    \
        OORT_ASM_ROWS_##n(OORT_WINO_LOAD, O)                                                      \
        "b 3f\n"                                                                                  \
        "2:\n"                                                                                    \
        OORT_WINO_FOUR(n, E, O, loads0, loads1, loads2, loads3)                                   \
        "3:\n"                                                                                    \
        OORT_WINO_FOUR(n, O, E, loads0, loads1, loads2, loads3)                                   \
        "subs %[k], %[k], #8\n"                                                                   \
        "b.gt 2b\n"                                                                               \
        OORT_ASM_ROWS_##n(OORT_WINO_STORE)                                                        \
        : [a0] "+r"(a0), [a1] "+r"(a1), [a2] "+r"(a2), [a3] "+r"(a3), [a4] "+r"(a4), [b] "+r"(b), \
          [k] "+r"(k), [c] "+r"(c), [soon] "+r"(soon)                                             \
        : [ldc] "r"(ldc * 4), [soon_step] "r"(soon_step)                                          \
        : "cc", "memory", OORT_ASM_ALL_VECTORS);                                                  \
  }

OORT_WINO_TILE(1, ROW0, NONE, NONE, NONE)
OORT_WINO_TILE(2, ROW0, ROW1, NONE, NONE)
OORT_WINO_TILE(3, ROW0, ROW1, ROW2, NONE)
OORT_WINO_TILE(4, ROW0, ROW1, ROW2, ROW3)
OORT_WINO_TILE(5, ROW0, ROW1, ROWS24, ROW3)
// clang-format on

}  // namespace oort::OORT_ISA
