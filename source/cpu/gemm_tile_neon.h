// SPDX-License-Identifier: MIT
// The inner loop of a matrix product on NEON: 8 x 12, multiplying by a lane of A. Only for
// gemm.simd.cpp, through gemm_tile.h.
#pragma once

#include <arm_neon.h>

#include "cpu/gemm_whole_tile.h"
#include "cpu/unroll.h"
#include "cpu/vec.h"

namespace oort::OORT_ISA {

inline constexpr int kGemmRows = 8, kGemmVectors = 3, kGemmDepth = 768;
inline constexpr int kGemmColumns = kGemmVectors * Vec::kWidth;
inline constexpr int kLeastWholeRows = kGemmRows;
inline constexpr bool kAnyWidth = false;

/// One step of k.
template <int rows, int vectors>
inline void AddStep(const float* a, const float* b, float32x4_t (&sums)[rows][vectors]) {
  constexpr int kLanes = rows < 4 ? rows : 4;
  static_assert(rows % kLanes == 0 && rows <= kGemmRows && vectors <= kGemmVectors);
  float32x4_t columns[vectors];
  Unroll<vectors>([&](auto v) { columns[v] = vld1q_f32(b + v * 4); });
  Unroll<rows / kLanes>([&](auto block) {
    const float32x4_t lanes = vld1q_f32(a + block * 4);
    Unroll<kLanes>([&](auto lane) {
      Unroll<vectors>([&](auto v) {
        float32x4_t& sum = sums[block * 4 + lane][v];
        sum = vfmaq_laneq_f32(sum, columns[v], lanes, decltype(lane)::value);
      });
    });
  });
}

/// Fewer columns or rows than a whole tile. Few rows have several sets of sums, so that additions
/// wait less for each other: four times four are under way at a time.
template <int rows, int vectors>
inline void Compute(int64_t k, const float* a, const float* b, float* out) {
  constexpr int kSets = rows * vectors <= 6 ? 4 : rows * vectors <= 12 ? 2 : 1;
  float32x4_t sums[kSets][rows][vectors];
  Unroll<kSets>([&](auto s) {
    Unroll<rows>([&](auto r) { Unroll<vectors>([&](auto v) { sums[s][r][v] = vdupq_n_f32(0); }); });
  });
  for (; k >= kSets; k -= kSets) {
    Unroll<kSets>(
        [&](auto s) { AddStep<rows, vectors>(a + s * kGemmRows, b + s * kGemmColumns, sums[s]); });
    a += kSets * kGemmRows;
    b += kSets * kGemmColumns;
  }
  for (; k > 0; --k, a += kGemmRows, b += kGemmColumns) {
    AddStep<rows, vectors>(a, b, sums[0]);
  }
  Unroll<rows>([&](auto r) {
    Unroll<vectors>([&](auto v) {
      float32x4_t sum = sums[0][r][v];
      Unroll<kSets - 1>([&](auto s) { sum = vaddq_f32(sum, sums[s + 1][r][v]); });
      vst1q_f32(out + r * kGemmColumns + v * 4, sum);
    });
  });
}

// The whole tile is in assembly, where each load stands behind the last use of its register: 99% of
// the peak of a Neoverse V1, against 88% that GCC 12 makes of the intrinsics above.
// v0, v1: eight rows of A; v2 to v4: twelve columns of B; v8 to v31: sums, three a row.
#define OORT_FMA(sum, column, row, lane) \
  "fmla v" #sum ".4s, v" #column ".4s, v" #row ".s[" #lane "]\n"
#define OORT_TOP_ROWS   \
  OORT_FMA(8, 2, 0, 0)  \
  OORT_FMA(9, 3, 0, 0)  \
  OORT_FMA(10, 4, 0, 0) \
  OORT_FMA(11, 2, 0, 1) \
  OORT_FMA(12, 3, 0, 1) \
  OORT_FMA(13, 4, 0, 1) \
  OORT_FMA(14, 2, 0, 2) \
  OORT_FMA(15, 3, 0, 2) \
  OORT_FMA(16, 4, 0, 2) OORT_FMA(17, 2, 0, 3) OORT_FMA(18, 3, 0, 3) OORT_FMA(19, 4, 0, 3)
#define OORT_BOTTOM_COLUMN(column, s0, s1, s2, s3) \
  OORT_FMA(s0, column, 1, 0)                       \
  OORT_FMA(s1, column, 1, 1) OORT_FMA(s2, column, 1, 2) OORT_FMA(s3, column, 1, 3)

#define OORT_INIT_ROW(s0, s1, s2) \
  "ldp q" #s0 ", q" #s1           \
  ", [%[init]]\n"                 \
  "ldr q" #s2                     \
  ", [%[init], #32]\n"            \
  "add %[init], %[init], %[init_stride]\n"
#define OORT_ADD_ROW(s0, s1, s2)                 \
  "ldp q0, q1, [%[addend]]\n"                    \
  "ldr q2, [%[addend], #32]\n"                   \
  "add %[addend], %[addend], %[addend_stride]\n" \
  "fadd v" #s0 ".4s, v" #s0                      \
  ".4s, v0.4s\n"                                 \
  "fadd v" #s1 ".4s, v" #s1                      \
  ".4s, v1.4s\n"                                 \
  "fadd v" #s2 ".4s, v" #s2 ".4s, v2.4s\n"
#define OORT_STORE_ROW(s0, s1, s2) \
  "stp q" #s0 ", q" #s1            \
  ", [%[out]]\n"                   \
  "str q" #s2                      \
  ", [%[out], #32]\n"              \
  "add %[out], %[out], %[out_stride]\n"
#define OORT_CLAMP(sum)       \
  "fmax v" #sum ".4s, v" #sum \
  ".4s, v0.4s\n"              \
  "fmin v" #sum ".4s, v" #sum ".4s, v1.4s\n"

/// The whole tile from its first values to C, at least one step of k.
inline void ComputeWhole(const WholeTile& tile) {
  const void *a = tile.a, *b = tile.b;
  const float *init = tile.init, *addend = tile.addend;
  float* out = tile.c;
  int64_t k = tile.k;
  const int64_t init_stride = tile.init_stride * 4, addend_stride = tile.addend_stride * 4;
  const int64_t out_stride = tile.ldc * 4;
  const float limits[2] = {tile.low, tile.high};
  const void* soon = tile.soon;
  // clang-format off
  asm volatile(
      OORT_INIT_ROW(8, 9, 10) OORT_INIT_ROW(11, 12, 13) OORT_INIT_ROW(14, 15, 16)
      OORT_INIT_ROW(17, 18, 19) OORT_INIT_ROW(20, 21, 22) OORT_INIT_ROW(23, 24, 25)
      OORT_INIT_ROW(26, 27, 28) OORT_INIT_ROW(29, 30, 31)
      "ldr q0, [%[a]], #16\n"
      "ldr q2, [%[b]], #16\n"
      "ldr q3, [%[b]], #16\n"
      "ldr q4, [%[b]], #16\n"
      "subs %[k], %[k], #1\n"
      "b.eq 2f\n"
      "1:\n"
      "ldr q1, [%[a]], #16\n"
      "prfm pldl2keep, [%[soon]]\n"
      OORT_TOP_ROWS
      "add %[soon], %[soon], %[soon_step]\n"
      "ldr q0, [%[a]], #16\n"
      OORT_BOTTOM_COLUMN(2, 20, 23, 26, 29)
      "ldr q2, [%[b]], #16\n"
      OORT_BOTTOM_COLUMN(3, 21, 24, 27, 30)
      "ldr q3, [%[b]], #16\n"
      OORT_BOTTOM_COLUMN(4, 22, 25, 28, 31)
      "ldr q4, [%[b]], #16\n"
      "subs %[k], %[k], #1\n"
      "b.ne 1b\n"
      "2:\n"
      "ldr q1, [%[a]], #16\n"
      OORT_TOP_ROWS
      OORT_BOTTOM_COLUMN(2, 20, 23, 26, 29)
      OORT_BOTTOM_COLUMN(3, 21, 24, 27, 30)
      OORT_BOTTOM_COLUMN(4, 22, 25, 28, 31)
      "cbz %[addend], 4f\n"
      OORT_ADD_ROW(8, 9, 10) OORT_ADD_ROW(11, 12, 13) OORT_ADD_ROW(14, 15, 16)
      OORT_ADD_ROW(17, 18, 19) OORT_ADD_ROW(20, 21, 22) OORT_ADD_ROW(23, 24, 25)
      OORT_ADD_ROW(26, 27, 28) OORT_ADD_ROW(29, 30, 31)
      "4:\n"
      "cbz %w[clamp], 3f\n"
      "ldp s0, s1, [%[limits]]\n"
      "dup v0.4s, v0.s[0]\n"
      "dup v1.4s, v1.s[0]\n"
      OORT_CLAMP(8) OORT_CLAMP(9) OORT_CLAMP(10) OORT_CLAMP(11) OORT_CLAMP(12) OORT_CLAMP(13)
      OORT_CLAMP(14) OORT_CLAMP(15) OORT_CLAMP(16) OORT_CLAMP(17) OORT_CLAMP(18) OORT_CLAMP(19)
      OORT_CLAMP(20) OORT_CLAMP(21) OORT_CLAMP(22) OORT_CLAMP(23) OORT_CLAMP(24) OORT_CLAMP(25)
      OORT_CLAMP(26) OORT_CLAMP(27) OORT_CLAMP(28) OORT_CLAMP(29) OORT_CLAMP(30) OORT_CLAMP(31)
      "3:\n"
      OORT_STORE_ROW(8, 9, 10) OORT_STORE_ROW(11, 12, 13) OORT_STORE_ROW(14, 15, 16)
      OORT_STORE_ROW(17, 18, 19) OORT_STORE_ROW(20, 21, 22) OORT_STORE_ROW(23, 24, 25)
      OORT_STORE_ROW(26, 27, 28) OORT_STORE_ROW(29, 30, 31)
      : [a] "+r"(a), [b] "+r"(b), [k] "+r"(k), [init] "+r"(init), [out] "+r"(out),
        [addend] "+r"(addend), [soon] "+r"(soon)
      : [addend_stride] "r"(addend_stride), [init_stride] "r"(init_stride), [out_stride] "r"(out_stride), [limits] "r"(limits), [soon_step] "r"(tile.soon_step),
        [clamp] "r"(static_cast<int>(tile.clamp))
      : "cc", "memory", "v0", "v1", "v2", "v3", "v4", "v8", "v9", "v10", "v11", "v12", "v13",
        "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26",
        "v27", "v28", "v29", "v30", "v31");
  // clang-format on
}

template <>
inline void Compute<8, 3>(int64_t k, const float* a, const float* b, float* out) {
  alignas(16) static constexpr float kZeros[kGemmColumns] = {};
  if (k == 0) {
    for (int i = 0; i < 8 * 12; i += 4) vst1q_f32(out + i, vdupq_n_f32(0));
    return;
  }
  WholeTile tile;
  tile.k = k;
  tile.a = a;
  tile.b = b;
  tile.init = kZeros;
  tile.c = out;
  tile.ldc = kGemmColumns;
  tile.soon = a;
  ComputeWhole(tile);
}

template <int rows, int... v>
inline void ComputePartOf(const GemmTile& tile, float* out, std::integer_sequence<int, v...>) {
  static constexpr void (*kTable[])(int64_t, const float*, const float*,
                                    float*) = {Compute<rows, v + 1>...};
  const int vectors = (tile.columns + Vec::kWidth - 1) / Vec::kWidth;
  kTable[vectors - 1](tile.k, static_cast<const float*>(tile.a), static_cast<const float*>(tile.b),
                      out);
}

/// At least the rows and vectors of a tile that are wanted, into out[rows][kGemmColumns].
inline void ComputePart(const GemmTile& tile, float* out) {
  // What whole tiles fetch on their way.
  const char* soon = static_cast<const char*>(tile.soon);
  for (int64_t i = 0; soon != nullptr && i < tile.soon_bytes; i += 64) {
    __builtin_prefetch(soon + i, 0, 2);
  }
  constexpr auto kVectors = std::make_integer_sequence<int, kGemmVectors>{};
  constexpr int kHalf = kGemmRows / 2, kQuarter = kGemmRows / 4;
  if (tile.rows <= kQuarter) return ComputePartOf<kQuarter>(tile, out, kVectors);
  if (tile.rows <= kHalf) return ComputePartOf<kHalf>(tile, out, kVectors);
  ComputePartOf<kGemmRows>(tile, out, kVectors);
}

#undef OORT_INIT_ROW
#undef OORT_ADD_ROW
#undef OORT_STORE_ROW
#undef OORT_CLAMP
#undef OORT_FMA
#undef OORT_TOP_ROWS
#undef OORT_BOTTOM_COLUMN

}  // namespace oort::OORT_ISA
