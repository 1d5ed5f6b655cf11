// SPDX-License-Identifier: MIT
// What the tiles of convolutions have in common in assembly: six rows by four vectors of sums. Only
// for row_tile_neon.h, row_tile_f16_neon.h and winograd_tile_neon.h.
#pragma once

#include "cpu/assembly_neon.h"

// clang-format off
/// The sum of a row and a vector of columns.
#define OORT_TILE_SUM(row, vector) OORT_TILE_SUM_##row##vector
#define OORT_TILE_SUM_00 8
#define OORT_TILE_SUM_01 9
#define OORT_TILE_SUM_02 10
#define OORT_TILE_SUM_03 11
#define OORT_TILE_SUM_10 12
#define OORT_TILE_SUM_11 13
#define OORT_TILE_SUM_12 14
#define OORT_TILE_SUM_13 15
#define OORT_TILE_SUM_20 16
#define OORT_TILE_SUM_21 17
#define OORT_TILE_SUM_22 18
#define OORT_TILE_SUM_23 19
#define OORT_TILE_SUM_30 20
#define OORT_TILE_SUM_31 21
#define OORT_TILE_SUM_32 22
#define OORT_TILE_SUM_33 23
#define OORT_TILE_SUM_40 24
#define OORT_TILE_SUM_41 25
#define OORT_TILE_SUM_42 26
#define OORT_TILE_SUM_43 27
#define OORT_TILE_SUM_50 28
#define OORT_TILE_SUM_51 29
#define OORT_TILE_SUM_52 30
#define OORT_TILE_SUM_53 31

// Of f32 there are five rows. Four elements of each are multiplied while the next four are loaded,
// so there are two sets of registers for them, E and O: with one set the latency of the loads shows
// (92% of the peak of a Neoverse V1 instead of 98%). Two registers hold columns in turn.
#define OORT_TILE_ELEMENTS(set, row) OORT_TILE_ELEMENTS_##set##row
#define OORT_TILE_ELEMENTS_E0 0
#define OORT_TILE_ELEMENTS_E1 1
#define OORT_TILE_ELEMENTS_E2 2
#define OORT_TILE_ELEMENTS_E3 3
#define OORT_TILE_ELEMENTS_E4 4
#define OORT_TILE_ELEMENTS_O0 5
#define OORT_TILE_ELEMENTS_O1 6
#define OORT_TILE_ELEMENTS_O2 7
#define OORT_TILE_ELEMENTS_O3 28
#define OORT_TILE_ELEMENTS_O4 29
#define OORT_TILE_COLUMNS_EVEN 30
#define OORT_TILE_COLUMNS_ODD 31

#define OORT_TILE_FMLA(row, set, lane, vector, columns) \
  OORT_ASM_FMLA_F32(OORT_TILE_SUM(row, vector), columns, OORT_TILE_ELEMENTS(set, row), lane)
/// One vector of columns times an element of each row; then the vector after the next is loaded.
#define OORT_TILE_VECTOR(rows, set, lane, vector, columns) \
  OORT_ASM_ROWS_##rows(OORT_TILE_FMLA, set, lane, vector, columns) OORT_ASM_LOAD_NEXT(columns, b)
/// One step of k. `loads` and `fetch` stand apart: several loads in a row would hold up the products.
#define OORT_TILE_STEP(rows, set, lane, loads, fetch)                    \
  OORT_TILE_VECTOR(rows, set, lane, 0, OORT_TILE_COLUMNS_EVEN)           \
  OORT_TILE_VECTOR(rows, set, lane, 1, OORT_TILE_COLUMNS_ODD) loads      \
  OORT_TILE_VECTOR(rows, set, lane, 2, OORT_TILE_COLUMNS_EVEN) fetch     \
  OORT_TILE_VECTOR(rows, set, lane, 3, OORT_TILE_COLUMNS_ODD)
#define OORT_TILE_FIRST_COLUMNS \
  OORT_ASM_LOAD_NEXT(OORT_TILE_COLUMNS_EVEN, b) OORT_ASM_LOAD_NEXT(OORT_TILE_COLUMNS_ODD, b)
/// The four sums of a row go to `pointer`, which moves on by the operand `step`.
#define OORT_TILE_STORE(row, pointer, step)                                       \
  OORT_ASM_STORE2(OORT_TILE_SUM(row, 0), OORT_TILE_SUM(row, 1), pointer, 0)       \
  OORT_ASM_STORE2(OORT_TILE_SUM(row, 2), OORT_TILE_SUM(row, 3), pointer, 32)      \
  OORT_ASM_ADVANCE(pointer, step)
// clang-format on
