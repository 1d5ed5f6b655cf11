// SPDX-License-Identifier: MIT
// Products of bf16 by BFMMLA: 2 x 4 by 4 x 2 matrices. A panel holds four steps of k of a row (or
// column) side by side, so that two rows make one register. Only for gemm.bf16.cpp.
#pragma once

#include <arm_neon.h>

#include "cpu/gemm_whole_tile.h"
#include "cpu/unroll.h"

namespace oort::OORT_ISA {

inline constexpr int kUnitRows = 8, kUnitColumns = 12, kUnitDepth = 1280;
inline constexpr int kUnitK = 4, kUnitGroupA = 4, kUnitGroupB = 4;
inline constexpr void (*kUnitBegin)() = nullptr;
inline constexpr void (*kUnitEnd)() = nullptr;

inline bfloat16x8_t LoadBf16(const uint16_t* p) { return vreinterpretq_bf16_u16(vld1q_u16(p)); }

/// Writes two rows of sums from registers that hold 2 x 2 each.
template <int pairs>
inline void StoreTwoRows(const float32x4_t* sums, float* out) {
  Unroll<pairs / 2>([&](auto c) {
    const float64x2_t left = vreinterpretq_f64_f32(sums[2 * c]);
    const float64x2_t right = vreinterpretq_f64_f32(sums[2 * c + 1]);
    vst1q_f32(out + 4 * c, vreinterpretq_f32_f64(vzip1q_f64(left, right)));
    vst1q_f32(out + kUnitColumns + 4 * c, vreinterpretq_f32_f64(vzip2q_f64(left, right)));
  });
}

/// Fewer columns or rows than a whole tile, counted in pairs. `k` in steps of four.
template <int row_pairs, int column_pairs>
inline void PartProduct(int64_t k, const uint16_t* a, const uint16_t* b, float* out) {
  float32x4_t sums[row_pairs][column_pairs];
  Unroll<row_pairs>(
      [&](auto r) { Unroll<column_pairs>([&](auto c) { sums[r][c] = vdupq_n_f32(0); }); });
  for (; k > 0; --k, a += 4 * kUnitRows, b += 4 * kUnitColumns) {
    bfloat16x8_t rows[row_pairs];
    Unroll<row_pairs>([&](auto r) { rows[r] = LoadBf16(a + 8 * r); });
    Unroll<column_pairs>([&](auto c) {
      const bfloat16x8_t columns = LoadBf16(b + 8 * c);
      Unroll<row_pairs>([&](auto r) { sums[r][c] = vbfmmlaq_f32(sums[r][c], rows[r], columns); });
    });
  }
  Unroll<row_pairs>(
      [&](auto r) { StoreTwoRows<column_pairs>(sums[r], out + 2 * r * kUnitColumns); });
}

// The whole tile is in assembly, where each load stands behind the last use of its register: 99%
// of the peak of a Neoverse V1. GCC 12 moves the sums to the stack and back at each step.
// v0 to v3: pairs of rows of A; v4 to v7: pairs of columns of B, in turn; v8 to v31: sums, six for
// each pair of rows.
// A bias for all rows, two columns twice; and copies of it.
#define OORT_BIAS(sum) "ld1r {v" #sum ".2d}, [%[init]], #8\n"
#define OORT_COPY(to, from) "mov v" #to ".16b, v" #from ".16b\n"
#define OORT_COPIES(s0, s1, s2, s3, s4, s5) \
  OORT_COPY(s0, 8)                          \
  OORT_COPY(s1, 9) OORT_COPY(s2, 10) OORT_COPY(s3, 11) OORT_COPY(s4, 12) OORT_COPY(s5, 13)
// Two rows of what is added to, as registers of 2 x 2.
#define OORT_INIT_ROW(r0, r1, r2)                 \
  "ldp q" #r0 ", q" #r1 ", [%[init]]\n ldr q" #r2 \
  ", [%[init], #32]\n"                            \
  "add %[init], %[init], %[init_stride]\n"
#define OORT_INIT_TWO(s0, s1, s2, s3, s4, s5)                          \
  OORT_INIT_ROW(0, 1, 2)                                               \
  OORT_INIT_ROW(3, 4, 5) "zip1 v" #s0 ".2d, v0.2d, v3.2d\n zip2 v" #s1 \
                         ".2d, v0.2d, v3.2d\n"                         \
                         "zip1 v" #s2 ".2d, v1.2d, v4.2d\n zip2 v" #s3 \
                         ".2d, v1.2d, v4.2d\n"                         \
                         "zip1 v" #s4 ".2d, v2.2d, v5.2d\n zip2 v" #s5 ".2d, v2.2d, v5.2d\n"
#define OORT_MMLA(sum, row, column) "bfmmla v" #sum ".4s, v" #row ".8h, v" #column ".8h\n"
#define OORT_LOAD_TWO(first, second, from, offset) \
  "ldp q" #first ", q" #second ", [%[" #from "], #" #offset "]\n"
#define OORT_BLOCK(row, left, right, s0, s1) OORT_MMLA(s0, row, left) OORT_MMLA(s1, row, right)
// clang-format off
// Four steps of k, and the loads of the next four.
#define OORT_STEP                                             \
  OORT_BLOCK(0, 4, 5, 8, 9) OORT_BLOCK(1, 4, 5, 14, 15)       \
  OORT_BLOCK(2, 4, 5, 20, 21) OORT_BLOCK(3, 4, 5, 26, 27)     \
  OORT_LOAD_TWO(4, 5, b, 64)                                  \
  OORT_BLOCK(0, 6, 7, 10, 11) OORT_BLOCK(1, 6, 7, 16, 17)     \
  OORT_BLOCK(2, 6, 7, 22, 23) OORT_BLOCK(3, 6, 7, 28, 29)     \
  OORT_LOAD_TWO(6, 7, b, 128)                                 \
  OORT_BLOCK(0, 4, 5, 12, 13) OORT_BLOCK(1, 4, 5, 18, 19)     \
  OORT_LOAD_TWO(0, 1, a, 64)                                  \
  OORT_BLOCK(2, 4, 5, 24, 25) OORT_BLOCK(3, 4, 5, 30, 31)     \
  OORT_LOAD_TWO(2, 3, a, 96) OORT_LOAD_TWO(4, 5, b, 96)       \
  "add %[a], %[a], #64\n add %[b], %[b], #96\n subs %[k], %[k], #1\n"
// clang-format on
#define OORT_ADD_ROW(from, s0, s1, s2)                                            \
  "ldp q3, q4, [%[" #from "]]\n ldr q5, [%[" #from                                \
  "], #32]\n"                                                                     \
  "add %[" #from "], %[" #from "], %[" #from "_stride]\n fadd v" #s0 ".4s, v" #s0 \
  ".4s, v3.4s\n fadd v" #s1 ".4s, v" #s1 ".4s, v4.4s\n fadd v" #s2 ".4s, v" #s2 ".4s, v5.4s\n"
#define OORT_CLAMP(sum)       \
  "fmax v" #sum ".4s, v" #sum \
  ".4s, v6.4s\n"              \
  "fmin v" #sum ".4s, v" #sum ".4s, v7.4s\n"
#define OORT_STORE_ROW(s0, s1, s2)               \
  "stp q" #s0 ", q" #s1 ", [%[out]]\n str q" #s2 \
  ", [%[out], #32]\n"                            \
  "add %[out], %[out], %[out_stride]\n"
// Turns six registers of 2 x 2 into two rows and finishes them.
#define OORT_TWO_ROWS(s0, s1, s2, s3, s4, s5)                                                 \
  "zip1 v0.2d, v" #s0 ".2d, v" #s1 ".2d\n zip2 v" #s0 ".2d, v" #s0 ".2d, v" #s1               \
  ".2d\n zip1 v1.2d, v" #s2 ".2d, v" #s3 ".2d\n zip2 v" #s2 ".2d, v" #s2 ".2d, v" #s3         \
  ".2d\n zip1 v2.2d, v" #s4 ".2d, v" #s5 ".2d\n zip2 v" #s4 ".2d, v" #s4 ".2d, v" #s5         \
  ".2d\n"                                                                                     \
  "cbz %[addend], 3f\n" OORT_ADD_ROW(addend, 0, 1, 2)                                         \
      OORT_ADD_ROW(addend, s0, s2, s4) "3:\n cbz %w[clamp], 4f\n" OORT_CLAMP(0) OORT_CLAMP(1) \
          OORT_CLAMP(2) OORT_CLAMP(s0) OORT_CLAMP(s2)                                         \
              OORT_CLAMP(s4) "4:\n" OORT_STORE_ROW(0, 1, 2) OORT_STORE_ROW(s0, s2, s4)

/// Whole tiles one below another, each from its first values to C, at least one step of k. In one
/// loop, so that a tile begins while the one above it is stored: 5 % of a product 576 deep.
inline void UnitWhole(const WholeTile& tile) {
  const void *panel = tile.a, *a, *b;
  const float *init = tile.init, *addend = tile.addend;
  float* out = tile.c;
  int64_t k, count = tile.count;
  const int64_t init_stride = tile.init_stride * 4, addend_stride = tile.addend_stride * 4;
  const int64_t out_stride = tile.ldc * 4;
  const float limits[2] = {tile.low, tile.high};
  const void* soon = tile.soon;
  // A fetch at each step costs 8% of the time: where there is nothing to fetch, none is done.
  // clang-format off
  asm volatile(
      "8:\n"
      "mov %[a], %[panel]\n"
      "mov %[b], %[b_panel]\n"
      "mov %[k], %[steps]\n"
      "cbnz %[init_stride], 5f\n"
      "mov %[init], %[bias]\n"
      OORT_BIAS(8) OORT_BIAS(9) OORT_BIAS(10) OORT_BIAS(11) OORT_BIAS(12) OORT_BIAS(13)
      OORT_COPIES(14, 15, 16, 17, 18, 19) OORT_COPIES(20, 21, 22, 23, 24, 25)
      OORT_COPIES(26, 27, 28, 29, 30, 31)
      "b 6f\n"
      "5:\n"
      OORT_INIT_TWO(8, 9, 10, 11, 12, 13) OORT_INIT_TWO(14, 15, 16, 17, 18, 19)
      OORT_INIT_TWO(20, 21, 22, 23, 24, 25) OORT_INIT_TWO(26, 27, 28, 29, 30, 31)
      "6:\n"
      OORT_LOAD_TWO(0, 1, a, 0) OORT_LOAD_TWO(2, 3, a, 32)
      OORT_LOAD_TWO(4, 5, b, 0) OORT_LOAD_TWO(6, 7, b, 32)
      "subs %[k], %[k], #1\n"
      "b.eq 2f\n"
      "cbz %[soon_step], 7f\n"
      "1:\n"
      "prfm pldl2keep, [%[soon]]\n"
      "add %[soon], %[soon], %[soon_step]\n"
      OORT_STEP
      "b.ne 1b\n"
      "b 2f\n"
      "7:\n"
      OORT_STEP
      "b.ne 7b\n"
      "2:\n"
      OORT_BLOCK(0, 4, 5, 8, 9) OORT_BLOCK(1, 4, 5, 14, 15)
      OORT_BLOCK(2, 4, 5, 20, 21) OORT_BLOCK(3, 4, 5, 26, 27)
      OORT_LOAD_TWO(4, 5, b, 64)
      OORT_BLOCK(0, 6, 7, 10, 11) OORT_BLOCK(1, 6, 7, 16, 17)
      OORT_BLOCK(2, 6, 7, 22, 23) OORT_BLOCK(3, 6, 7, 28, 29)
      OORT_BLOCK(0, 4, 5, 12, 13) OORT_BLOCK(1, 4, 5, 18, 19)
      OORT_BLOCK(2, 4, 5, 24, 25) OORT_BLOCK(3, 4, 5, 30, 31)
      "ldp s6, s7, [%[limits]]\n"
      "dup v6.4s, v6.s[0]\n"
      "dup v7.4s, v7.s[0]\n"
      OORT_TWO_ROWS(8, 9, 10, 11, 12, 13)
      OORT_TWO_ROWS(14, 15, 16, 17, 18, 19)
      OORT_TWO_ROWS(20, 21, 22, 23, 24, 25)
      OORT_TWO_ROWS(26, 27, 28, 29, 30, 31)
      "add %[panel], %[panel], %[a_step]\n"
      "subs %[count], %[count], #1\n"
      "b.ne 8b\n"
      : [a] "=&r"(a), [b] "=&r"(b), [k] "=&r"(k), [init] "+&r"(init), [addend] "+&r"(addend),
        [out] "+&r"(out), [soon] "+&r"(soon), [panel] "+&r"(panel), [count] "+&r"(count)
      : [b_panel] "r"(tile.b), [steps] "r"(tile.k / 4), [bias] "r"(tile.init),
        [a_step] "r"(tile.a_step), [init_stride] "r"(init_stride), [addend_stride] "r"(addend_stride),
        [out_stride] "r"(out_stride), [limits] "r"(limits), [soon_step] "r"(tile.soon_step * 4),
        [clamp] "r"(static_cast<int>(tile.clamp))
      : "cc", "memory", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11",
        "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24",
        "v25", "v26", "v27", "v28", "v29", "v30", "v31");
  // clang-format on
}

#undef OORT_BIAS
#undef OORT_COPY
#undef OORT_COPIES
#undef OORT_INIT_ROW
#undef OORT_INIT_TWO
#undef OORT_MMLA
#undef OORT_LOAD_TWO
#undef OORT_BLOCK
#undef OORT_STEP
#undef OORT_ADD_ROW
#undef OORT_CLAMP
#undef OORT_STORE_ROW
#undef OORT_TWO_ROWS

/// To sums[rows][kUnitColumns].
inline void WholeProduct(int64_t k, const uint16_t* a, const uint16_t* b, float* out) {
  alignas(16) static constexpr float kZeros[kUnitColumns] = {};
  if (k == 0) {
    for (int i = 0; i < kUnitRows * kUnitColumns; i += 4) vst1q_f32(out + i, vdupq_n_f32(0));
    return;
  }
  WholeTile tile;
  tile.k = 4 * k;
  tile.a = a;
  tile.b = b;
  tile.init = kZeros;
  tile.c = out;
  tile.ldc = kUnitColumns;
  tile.soon = a;
  UnitWhole(tile);
}

/// sums[rows][kUnitColumns] of a tile.
inline void UnitProduct(const GemmTile& tile, float* sums) {
  using Function = void (*)(int64_t, const uint16_t*, const uint16_t*, float*);
  static constexpr Function kFunctions[2][3] = {
      {PartProduct<2, 2>, PartProduct<2, 4>, PartProduct<2, 6>},
      {PartProduct<4, 2>, PartProduct<4, 4>, WholeProduct}};
  const int half = tile.rows <= kUnitRows / 2 ? 0 : 1, third = (tile.columns - 1) / 4;
  kFunctions[half][third](tile.k / 4, static_cast<const uint16_t*>(tile.a),
                          static_cast<const uint16_t*>(tile.b), sums);
}

template <int width, int group>
inline void UnitGemv(int64_t k, const uint16_t* panel, const float* x, float* total) {
  static_assert(group == 4 && width % 2 == 0);
  float32x4_t sums[width];
  Unroll<width>([&](auto i) { sums[i] = vdupq_n_f32(0); });
  for (; k > 0; k -= 4, x += 4, panel += 4 * width) {
    const float32x4_t factors = vld1q_f32(x);
    Unroll<width / 2>([&](auto i) {
      const uint16x8_t two = vld1q_u16(panel + 8 * i);
      const float32x4_t low = vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(two), 16));
      const float32x4_t high = vreinterpretq_f32_u32(vshll_high_n_u16(two, 16));
      sums[2 * i] = vfmaq_f32(sums[2 * i], low, factors);
      sums[2 * i + 1] = vfmaq_f32(sums[2 * i + 1], high, factors);
    });
  }
  Unroll<width>([&](auto i) { total[i] = vaddvq_f32(sums[i]); });
}

/// Four steps of k of `pairs` times two rows at a time.
template <int pairs>
inline void PackPairs(const float* const* rows, int64_t from, int64_t to, int width,
                      uint16_t* panel) {
  const float* row[2 * pairs];
  Unroll<2 * pairs>([&](auto i) { row[i] = rows[i]; });
  for (int64_t k = from; k < to; k += 4, panel += 4 * width) {
    Unroll<pairs>([&](auto i) {
      const bfloat16x8_t first = vcvtq_low_bf16_f32(vld1q_f32(row[2 * i] + k));
      const bfloat16x8_t both = vcvtq_high_bf16_f32(first, vld1q_f32(row[2 * i + 1] + k));
      vst1q_u16(panel + 8 * i, vreinterpretq_u16_bf16(both));
    });
  }
}

/// Whole groups: k in [from, to) of the rows, to a panel that begins at `from`.
inline void UnitPackGroups(const float* const* rows, int count, int64_t from, int64_t to,
                           const PanelPart& part, uint16_t* panel) {
  const int width = part.width;
  int i = 0;
  for (; i + 8 <= count; i += 8) PackPairs<4>(rows + i, from, to, width, panel + 4 * i);
  for (; i + 2 <= count; i += 2) PackPairs<1>(rows + i, from, to, width, panel + 4 * i);
  for (; i < width; ++i) {
    uint16_t* to_row = panel + 4 * i;
    for (int64_t k = from; k < to; k += 4, to_row += 4 * width) {
      const float32x4_t values = i < count ? vld1q_f32(rows[i] + k) : vdupq_n_f32(0);
      vst1_u16(to_row, vreinterpret_u16_bf16(vcvt_bf16_f32(values)));
    }
  }
}

/// Groups are short: ends of them need nothing faster than the plain code.
inline bool UnitPackEnds(const float* const*, int, int64_t, int64_t, int64_t, const PanelPart&) {
  return false;
}

}  // namespace oort::OORT_ISA
