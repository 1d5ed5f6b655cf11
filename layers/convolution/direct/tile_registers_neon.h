// SPDX-License-Identifier: MIT
// What the tiles of five rows by sixteen columns have in common on NEON.
// Only for row_tile_neon.h and winograd_tile_neon.h.
//
// v8 to v27: sums, four a row; v30 and v31: columns in turn. Four elements of each row are used
// while the next four come, so there are two sets of registers for them, E and O: with one the
// latency of the loads shows (92% of the peak of a Neoverse V1 instead of 98%).
#pragma once

// clang-format off
#define OORT_T_E0 "0"
#define OORT_T_E1 "1"
#define OORT_T_E2 "2"
#define OORT_T_E3 "3"
#define OORT_T_E4 "4"
#define OORT_T_O0 "5"
#define OORT_T_O1 "6"
#define OORT_T_O2 "7"
#define OORT_T_O3 "28"
#define OORT_T_O4 "29"
/// Sum += columns times an element of a row.
#define OORT_T_FMA(sum, column, set, row, lane) \
  "fmla v" #sum ".4s, v" #column ".4s, v" OORT_T_##set##row ".s[" #lane "]\n"
/// The next four columns.
#define OORT_T_COLUMN(to) "ldr q" #to ", [%[b]], #16\n"
/// The next four elements of the row that lies at [%[<row>]].
#define OORT_T_LOAD(set, row, at) "ldr q" OORT_T_##set##row ", [%[" #at "]], #16\n"
/// Four sums to [%[to]], which moves on.
#define OORT_T_STORE(to, step, s0, s1, s2, s3)                                        \
  "stp q" #s0 ", q" #s1 ", [%[" #to "]]\n" "stp q" #s2 ", q" #s3 ", [%[" #to "], #32]\n" \
  "add %[" #to "], %[" #to "], %[" #step "]\n"
/// All vector registers, as an asm statement that overwrites them lists them.
#define OORT_T_ALL_VECTORS                                                                      \
  "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", \
  "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27",     \
  "v28", "v29", "v30", "v31"
// clang-format on
