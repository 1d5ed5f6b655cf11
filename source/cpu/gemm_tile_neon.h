// SPDX-License-Identifier: MIT
// The micro-kernel of a matrix product on NEON: a tile of 8 x 12, multiplying by a lane of A. Only
// for gemm.simd.cpp, through gemm_tile.h.
#pragma once

#include "cpu/assembly_neon.h"
#include "cpu/gemm_finish.h"
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

/// Computes fewer rows than a whole tile has. They have several sets of sums, because sixteen
/// additions must be under way at a time: four begin in a cycle, and each takes four. The number of
/// sets depends on the rows alone, so that the bits of an element do not depend on its column.
template <int rows, int vectors>
inline void Compute(int64_t k, const float* a, const float* b, float* out) {
  constexpr int kSets = kGemmRows / rows;
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

#if OORT_HAS_ASSEMBLY
// The whole tile is in assembly, where each load stands behind the last use of its register: 99% of
// the peak of a Neoverse V1, against 88% that GCC 12 makes of the intrinsics.
// clang-format off
#define OORT_GEMM_ROWS_TOP 0     // four rows of A
#define OORT_GEMM_ROWS_BOTTOM 1  // four more
#define OORT_GEMM_COLUMNS_0 2    // twelve columns of B
#define OORT_GEMM_COLUMNS_1 3
#define OORT_GEMM_COLUMNS_2 4
// v8 to v31 are sums, three a row.
#define OORT_GEMM_SUM(row, vector) OORT_GEMM_SUM_##row##vector
#define OORT_GEMM_SUM_00 8
#define OORT_GEMM_SUM_01 9
#define OORT_GEMM_SUM_02 10
#define OORT_GEMM_SUM_10 11
#define OORT_GEMM_SUM_11 12
#define OORT_GEMM_SUM_12 13
#define OORT_GEMM_SUM_20 14
#define OORT_GEMM_SUM_21 15
#define OORT_GEMM_SUM_22 16
#define OORT_GEMM_SUM_30 17
#define OORT_GEMM_SUM_31 18
#define OORT_GEMM_SUM_32 19
#define OORT_GEMM_SUM_40 20
#define OORT_GEMM_SUM_41 21
#define OORT_GEMM_SUM_42 22
#define OORT_GEMM_SUM_50 23
#define OORT_GEMM_SUM_51 24
#define OORT_GEMM_SUM_52 25
#define OORT_GEMM_SUM_60 26
#define OORT_GEMM_SUM_61 27
#define OORT_GEMM_SUM_62 28
#define OORT_GEMM_SUM_70 29
#define OORT_GEMM_SUM_71 30
#define OORT_GEMM_SUM_72 31
// All columns times one of the upper four rows; one vector of columns times the lower four.
#define OORT_GEMM_TOP_ONE(vector, row) \
  OORT_ASM_FMLA_F32(OORT_GEMM_SUM(row, vector), OORT_GEMM_COLUMNS_##vector, OORT_GEMM_ROWS_TOP, row)
#define OORT_GEMM_TOP(row) OORT_ASM_VECTORS_3(OORT_GEMM_TOP_ONE, row)
#define OORT_GEMM_BOTTOM_ONE(vector, row, lane) \
  OORT_ASM_FMLA_F32(OORT_GEMM_SUM(row, vector), OORT_GEMM_COLUMNS_##vector, OORT_GEMM_ROWS_BOTTOM, lane)
#define OORT_GEMM_BOTTOM(vector)                                                            \
  OORT_GEMM_BOTTOM_ONE(vector, 4, 0) OORT_GEMM_BOTTOM_ONE(vector, 5, 1)                     \
  OORT_GEMM_BOTTOM_ONE(vector, 6, 2) OORT_GEMM_BOTTOM_ONE(vector, 7, 3)
#define OORT_GEMM_INIT(row)                                                                 \
  OORT_ASM_LOAD2(OORT_GEMM_SUM(row, 0), OORT_GEMM_SUM(row, 1), init, 0)                     \
  OORT_ASM_LOAD(OORT_GEMM_SUM(row, 2), init, 32) OORT_ASM_ADVANCE(init, init_stride)
// The epilogue has v0 to v4 for itself.
#define OORT_GEMM_APPLY(vector, row, name, by) \
  OORT_ASM_BINARY(name, 4s, OORT_GEMM_SUM(row, vector), OORT_GEMM_SUM(row, vector), by)
#define OORT_GEMM_ADD(row)                                                                  \
  OORT_ASM_LOAD2(0, 1, addend, 0) OORT_ASM_LOAD(2, addend, 32)                              \
  OORT_ASM_ADVANCE(addend, addend_stride)                                                   \
  OORT_GEMM_APPLY(0, row, fadd, 0) OORT_GEMM_APPLY(1, row, fadd, 1) OORT_GEMM_APPLY(2, row, fadd, 2)
#define OORT_GEMM_CLAMP_ONE(vector, row) \
  OORT_GEMM_APPLY(vector, row, fmax, 0) OORT_GEMM_APPLY(vector, row, fmin, 1)
#define OORT_GEMM_CLAMP(row) OORT_ASM_VECTORS_3(OORT_GEMM_CLAMP_ONE, row)
#define OORT_GEMM_STORE(row)                                                                \
  OORT_ASM_STORE2(OORT_GEMM_SUM(row, 0), OORT_GEMM_SUM(row, 1), out, 0)                     \
  OORT_ASM_STORE(OORT_GEMM_SUM(row, 2), out, 32) OORT_ASM_ADVANCE(out, out_stride)

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
  asm volatile(
      OORT_ASM_ROWS_8(OORT_GEMM_INIT)
      OORT_ASM_LOAD_NEXT(OORT_GEMM_ROWS_TOP, a)
      OORT_ASM_LOAD_NEXT(OORT_GEMM_COLUMNS_0, b)
      OORT_ASM_LOAD_NEXT(OORT_GEMM_COLUMNS_1, b)
      OORT_ASM_LOAD_NEXT(OORT_GEMM_COLUMNS_2, b)
      OORT_ASM_COUNT_DOWN(k)
      "b.eq 2f\n"
      "1:\n"
      OORT_ASM_LOAD_NEXT(OORT_GEMM_ROWS_BOTTOM, a)
      OORT_ASM_PREFETCH(pldl2keep, soon, 0)
      OORT_ASM_ROWS_4(OORT_GEMM_TOP)
      OORT_ASM_ADVANCE(soon, soon_step)
      OORT_ASM_LOAD_NEXT(OORT_GEMM_ROWS_TOP, a)
      OORT_GEMM_BOTTOM(0) OORT_ASM_LOAD_NEXT(OORT_GEMM_COLUMNS_0, b)
      OORT_GEMM_BOTTOM(1) OORT_ASM_LOAD_NEXT(OORT_GEMM_COLUMNS_1, b)
      OORT_GEMM_BOTTOM(2) OORT_ASM_LOAD_NEXT(OORT_GEMM_COLUMNS_2, b)
      OORT_ASM_COUNT_DOWN(k)
      "b.ne 1b\n"
      "2:\n"
      OORT_ASM_LOAD_NEXT(OORT_GEMM_ROWS_BOTTOM, a)
      OORT_ASM_ROWS_4(OORT_GEMM_TOP)
      OORT_GEMM_BOTTOM(0) OORT_GEMM_BOTTOM(1) OORT_GEMM_BOTTOM(2)
      "cbz %[addend], 4f\n"
      OORT_ASM_ROWS_8(OORT_GEMM_ADD)
      "4:\n"
      "cbz %w[clamp], 3f\n"
      "ldp s0, s1, [%[limits]]\n"
      "dup v0.4s, v0.s[0]\n"
      "dup v1.4s, v1.s[0]\n"
      OORT_ASM_ROWS_8(OORT_GEMM_CLAMP)
      "3:\n"
      OORT_ASM_ROWS_8(OORT_GEMM_STORE)
      : [a] "+r"(a), [b] "+r"(b), [k] "+r"(k), [init] "+r"(init), [out] "+r"(out),
        [addend] "+r"(addend), [soon] "+r"(soon)
      : [addend_stride] "r"(addend_stride), [init_stride] "r"(init_stride),
        [out_stride] "r"(out_stride), [limits] "r"(limits), [soon_step] "r"(tile.soon_step),
        [clamp] "r"(static_cast<int>(tile.clamp))
      : "cc", "memory", "v0", "v1", "v2", "v3", "v4", "v8", "v9", "v10", "v11", "v12", "v13",
        "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26",
        "v27", "v28", "v29", "v30", "v31");
}
// clang-format on
#endif

/// Some columns of all rows, in the order of the assembly; with all columns it is its twin.
template <int vectors>
inline void ComputeColumns(const WholeTile& tile) {
  constexpr int kRows = kGemmRows;
  const float *a = static_cast<const float*>(tile.a), *b = static_cast<const float*>(tile.b);
  const char* soon = static_cast<const char*>(tile.soon);
  float32x4_t sums[kRows][vectors];
  const auto each = [&](auto body) {
    Unroll<kRows>([&](auto r) { Unroll<vectors>([&](auto v) { body(r, v, sums[r][v]); }); });
  };
  each([&](int r, int v, float32x4_t& sum) {
    sum = vld1q_f32(tile.init + r * tile.init_stride + 4 * v);
  });
  for (int64_t k = 0; k < tile.k; ++k, a += kGemmRows, b += kGemmColumns) {
    __builtin_prefetch(soon, 0, 2);
    soon += tile.soon_step;
    AddStep<kRows, vectors>(a, b, sums);
  }
  each([&](int r, int v, float32x4_t sum) {
    if (tile.addend != nullptr) {
      sum = vaddq_f32(sum, vld1q_f32(tile.addend + r * tile.addend_stride + 4 * v));
    }
    if (tile.clamp) {
      sum = vminq_f32(vmaxq_f32(sum, vdupq_n_f32(tile.low)), vdupq_n_f32(tile.high));
    }
    vst1q_f32(tile.c + r * tile.ldc + 4 * v, sum);
  });
}

/// A tile with all its rows.
inline void ComputeTile(const WholeTile& tile) {
  if (tile.vectors == 1) return ComputeColumns<1>(tile);
  if (tile.vectors == 2) return ComputeColumns<2>(tile);
#if OORT_HAS_ASSEMBLY
  ComputeWhole(tile);
#else
  ComputeColumns<kGemmVectors>(tile);
#endif
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
  tile.vectors = kGemmVectors;
  ComputeTile(tile);
}

template <int rows, int... v>
inline void ComputeFewOf(const GemmTile& tile, float* out, std::integer_sequence<int, v...>) {
  static constexpr void (*kTable[])(int64_t, const float*, const float*,
                                    float*) = {Compute<rows, v + 1>...};
  const int vectors = (tile.columns + Vec::kWidth - 1) / Vec::kWidth;
  kTable[vectors - 1](tile.k, static_cast<const float*>(tile.a), static_cast<const float*>(tile.b),
                      out);
}

/// At least the rows and vectors of a tile that are wanted, into out[rows][kGemmColumns].
inline void ComputeFew(const GemmTile& tile, float* out) {
  // Prefetches what whole tiles prefetch at each step.
  const char* soon = static_cast<const char*>(tile.soon);
  for (int64_t i = 0; soon != nullptr && i < tile.soon_bytes; i += 64) {
    __builtin_prefetch(soon + i, 0, 2);
  }
  constexpr auto kVectors = std::make_integer_sequence<int, kGemmVectors>{};
  constexpr int kHalf = kGemmRows / 2, kQuarter = kGemmRows / 4;
  if (tile.rows <= kQuarter) return ComputeFewOf<kQuarter>(tile, out, kVectors);
  if (tile.rows <= kHalf) return ComputeFewOf<kHalf>(tile, out, kVectors);
  ComputeFewOf<kGemmRows>(tile, out, kVectors);
}

/// Computes a tile that lacks rows, where all its sums would leave registers unused. Returns
/// whether this is one.
inline bool ComputeFewRows(const GemmTile& tile) {
  if (tile.rows == kGemmRows && tile.k > 0) return false;
  alignas(64) float sums[kGemmRows * kGemmColumns];
  ComputeFew(tile, sums);
  Finish<kGemmColumns>(tile, sums);
  return true;
}

}  // namespace oort::OORT_ISA
