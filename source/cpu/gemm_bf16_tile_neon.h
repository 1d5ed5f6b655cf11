// SPDX-License-Identifier: MIT
// Whole tiles of eight rows by twelve columns by BFMMLA, in assembly and in intrinsics. Only for
// gemm_bf16_neon.h, which says how panels lie.
#pragma once

#include "cpu/assembly_neon.h"
#include "cpu/gemm_whole_tile.h"
#include "cpu/unroll.h"

namespace oort::OORT_ISA {

inline constexpr int kUnitRows = 8, kUnitColumns = 12, kUnitDepth = 1280;

inline bfloat16x8_t LoadBf16(const uint16_t* p) { return vreinterpretq_bf16_u16(vld1q_u16(p)); }

#if OORT_HAS_ASSEMBLY
// The whole tile is in assembly, where each load stands behind the last use of its register: 99%
// of the peak of a Neoverse V1. GCC 12 moves the sums to the stack and back at each step.
// v0 to v3 hold pairs of rows of A, v4 to v7 pairs of columns of B, in turn.
// clang-format off
// The sums of two rows by two columns each, by pair of rows and pair of columns.
#define OORT_MMLA_SUM(rows, columns) OORT_MMLA_SUM_##rows##columns
#define OORT_MMLA_SUM_00 8
#define OORT_MMLA_SUM_01 9
#define OORT_MMLA_SUM_02 10
#define OORT_MMLA_SUM_03 11
#define OORT_MMLA_SUM_04 12
#define OORT_MMLA_SUM_05 13
#define OORT_MMLA_SUM_10 14
#define OORT_MMLA_SUM_11 15
#define OORT_MMLA_SUM_12 16
#define OORT_MMLA_SUM_13 17
#define OORT_MMLA_SUM_14 18
#define OORT_MMLA_SUM_15 19
#define OORT_MMLA_SUM_20 20
#define OORT_MMLA_SUM_21 21
#define OORT_MMLA_SUM_22 22
#define OORT_MMLA_SUM_23 23
#define OORT_MMLA_SUM_24 24
#define OORT_MMLA_SUM_25 25
#define OORT_MMLA_SUM_30 26
#define OORT_MMLA_SUM_31 27
#define OORT_MMLA_SUM_32 28
#define OORT_MMLA_SUM_33 29
#define OORT_MMLA_SUM_34 30
#define OORT_MMLA_SUM_35 31

// Sums begin with a bias for all rows, of which each register holds two columns twice, …
#define OORT_MMLA_BIAS(columns) "ld1r {" OORT_ASM_V(OORT_MMLA_SUM(0, columns)) ".2d}, [%[init]], #8\n"
#define OORT_MMLA_COPY_BIAS(columns, rows) \
  OORT_ASM_COPY(OORT_MMLA_SUM(rows, columns), OORT_MMLA_SUM(0, columns))
// … or with two rows of what C holds, as registers of 2 x 2.
#define OORT_MMLA_INIT_ROW(r0, r1, r2) \
  OORT_ASM_LOAD2(r0, r1, init, 0) OORT_ASM_LOAD(r2, init, 32) OORT_ASM_ADVANCE(init, init_stride)
#define OORT_MMLA_INIT(rows)                                                                  \
  OORT_MMLA_INIT_ROW(0, 1, 2) OORT_MMLA_INIT_ROW(3, 4, 5)                                     \
  OORT_ASM_BINARY(zip1, 2d, OORT_MMLA_SUM(rows, 0), 0, 3)                                     \
  OORT_ASM_BINARY(zip2, 2d, OORT_MMLA_SUM(rows, 1), 0, 3)                                     \
  OORT_ASM_BINARY(zip1, 2d, OORT_MMLA_SUM(rows, 2), 1, 4)                                     \
  OORT_ASM_BINARY(zip2, 2d, OORT_MMLA_SUM(rows, 3), 1, 4)                                     \
  OORT_ASM_BINARY(zip1, 2d, OORT_MMLA_SUM(rows, 4), 2, 5)                                     \
  OORT_ASM_BINARY(zip2, 2d, OORT_MMLA_SUM(rows, 5), 2, 5)

// A pair of rows times the pairs of columns c0 and c1, which the registers `left` and `right` hold.
#define OORT_MMLA_ONE(rows, column, columns) \
  "bfmmla " OORT_ASM_V(OORT_MMLA_SUM(rows, columns)) ".4s, " OORT_ASM_V(rows) ".8h, "         \
  OORT_ASM_V(column) ".8h\n"
#define OORT_MMLA_BLOCK(rows, left, right, c0, c1) \
  OORT_MMLA_ONE(rows, left, c0) OORT_MMLA_ONE(rows, right, c1)
// Four steps of k, and the loads of the next four.
#define OORT_MMLA_STEP                                                                        \
  OORT_ASM_ROWS_4(OORT_MMLA_BLOCK, 4, 5, 0, 1) OORT_ASM_LOAD2(4, 5, b, 64)                    \
  OORT_ASM_ROWS_4(OORT_MMLA_BLOCK, 6, 7, 2, 3) OORT_ASM_LOAD2(6, 7, b, 128)                   \
  OORT_MMLA_BLOCK(0, 4, 5, 4, 5) OORT_MMLA_BLOCK(1, 4, 5, 4, 5) OORT_ASM_LOAD2(0, 1, a, 64)   \
  OORT_MMLA_BLOCK(2, 4, 5, 4, 5) OORT_MMLA_BLOCK(3, 4, 5, 4, 5) OORT_ASM_LOAD2(2, 3, a, 96)   \
  OORT_ASM_LOAD2(4, 5, b, 96)                                                                 \
  OORT_ASM_ADVANCE_BY(a, 64) OORT_ASM_ADVANCE_BY(b, 96) OORT_ASM_COUNT_DOWN(k)
#define OORT_MMLA_LAST_STEP                                                                   \
  OORT_ASM_ROWS_4(OORT_MMLA_BLOCK, 4, 5, 0, 1) OORT_ASM_LOAD2(4, 5, b, 64)                    \
  OORT_ASM_ROWS_4(OORT_MMLA_BLOCK, 6, 7, 2, 3) OORT_ASM_ROWS_4(OORT_MMLA_BLOCK, 4, 5, 4, 5)

// The epilogue turns six registers of 2 x 2 into two rows and finishes them. v3 to v5 hold addends,
// v6 and v7 the limits.
#define OORT_MMLA_SPLIT(to, s0, s1) \
  OORT_ASM_BINARY(zip1, 2d, to, s0, s1) OORT_ASM_BINARY(zip2, 2d, s0, s0, s1)
#define OORT_MMLA_ADD(s0, s1, s2)                                                             \
  OORT_ASM_LOAD2(3, 4, addend, 0) OORT_ASM_LOAD(5, addend, 32)                                \
  OORT_ASM_ADVANCE(addend, addend_stride) OORT_ASM_BINARY(fadd, 4s, s0, s0, 3)                \
  OORT_ASM_BINARY(fadd, 4s, s1, s1, 4) OORT_ASM_BINARY(fadd, 4s, s2, s2, 5)
#define OORT_MMLA_CLAMP(sum) OORT_ASM_BINARY(fmax, 4s, sum, sum, 6) OORT_ASM_BINARY(fmin, 4s, sum, sum, 7)
#define OORT_MMLA_STORE(s0, s1, s2) \
  OORT_ASM_STORE2(s0, s1, out, 0) OORT_ASM_STORE(s2, out, 32) OORT_ASM_ADVANCE(out, out_stride)
#define OORT_MMLA_FINISH_SUMS(s0, s1, s2, s3, s4, s5)                                         \
  OORT_MMLA_SPLIT(0, s0, s1) OORT_MMLA_SPLIT(1, s2, s3) OORT_MMLA_SPLIT(2, s4, s5)            \
  "cbz %[addend], 3f\n" OORT_MMLA_ADD(0, 1, 2) OORT_MMLA_ADD(s0, s2, s4)                      \
  "3:\n cbz %w[clamp], 4f\n" OORT_MMLA_CLAMP(0) OORT_MMLA_CLAMP(1) OORT_MMLA_CLAMP(2)         \
  OORT_MMLA_CLAMP(s0) OORT_MMLA_CLAMP(s2) OORT_MMLA_CLAMP(s4)                                 \
  "4:\n" OORT_MMLA_STORE(0, 1, 2) OORT_MMLA_STORE(s0, s2, s4)
#define OORT_MMLA_FINISH(rows)                                                                \
  OORT_MMLA_FINISH_SUMS(OORT_MMLA_SUM(rows, 0), OORT_MMLA_SUM(rows, 1), OORT_MMLA_SUM(rows, 2), \
                        OORT_MMLA_SUM(rows, 3), OORT_MMLA_SUM(rows, 4), OORT_MMLA_SUM(rows, 5))

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
  asm volatile(
      "8:\n"
      "mov %[a], %[panel]\n"
      "mov %[b], %[b_panel]\n"
      "mov %[k], %[steps]\n"
      "cbnz %[init_stride], 5f\n"
      "mov %[init], %[bias]\n"
      OORT_ASM_ROWS_6(OORT_MMLA_BIAS)
      OORT_ASM_ROWS_6(OORT_MMLA_COPY_BIAS, 1) OORT_ASM_ROWS_6(OORT_MMLA_COPY_BIAS, 2)
      OORT_ASM_ROWS_6(OORT_MMLA_COPY_BIAS, 3)
      "b 6f\n"
      "5:\n"
      OORT_ASM_ROWS_4(OORT_MMLA_INIT)
      "6:\n"
      OORT_ASM_LOAD2(0, 1, a, 0) OORT_ASM_LOAD2(2, 3, a, 32)
      OORT_ASM_LOAD2(4, 5, b, 0) OORT_ASM_LOAD2(6, 7, b, 32)
      OORT_ASM_COUNT_DOWN(k)
      "b.eq 2f\n"
      "cbz %[soon_step], 7f\n"
      "1:\n"
      OORT_ASM_PREFETCH(pldl2keep, soon, 0) OORT_ASM_ADVANCE(soon, soon_step)
      OORT_MMLA_STEP
      "b.ne 1b\n"
      "b 2f\n"
      "7:\n"
      OORT_MMLA_STEP
      "b.ne 7b\n"
      "2:\n"
      OORT_MMLA_LAST_STEP
      "ldp s6, s7, [%[limits]]\n"
      "dup v6.4s, v6.s[0]\n"
      "dup v7.4s, v7.s[0]\n"
      OORT_ASM_ROWS_4(OORT_MMLA_FINISH)
      OORT_ASM_ADVANCE(panel, a_step)
      OORT_ASM_COUNT_DOWN(count)
      "b.ne 8b\n"
      : [a] "=&r"(a), [b] "=&r"(b), [k] "=&r"(k), [init] "+&r"(init), [addend] "+&r"(addend),
        [out] "+&r"(out), [soon] "+&r"(soon), [panel] "+&r"(panel), [count] "+&r"(count)
      : [b_panel] "r"(tile.b), [steps] "r"(tile.k / 4), [bias] "r"(tile.init),
        [a_step] "r"(tile.a_step), [init_stride] "r"(init_stride), [addend_stride] "r"(addend_stride),
        [out_stride] "r"(out_stride), [limits] "r"(limits), [soon_step] "r"(tile.soon_step * 4),
        [clamp] "r"(static_cast<int>(tile.clamp))
      : "cc", "memory", OORT_ASM_ALL_VECTORS);
}
// clang-format on
#else
/// The twin of the assembly.
inline void UnitWhole(const WholeTile& tile) {
  const uint16_t* panel = static_cast<const uint16_t*>(tile.a);
  const float *init = tile.init, *addend = tile.addend;
  float* out = tile.c;
  const auto zip1 = [](float32x4_t x, float32x4_t y) {
    return vreinterpretq_f32_f64(vzip1q_f64(vreinterpretq_f64_f32(x), vreinterpretq_f64_f32(y)));
  };
  const auto zip2 = [](float32x4_t x, float32x4_t y) {
    return vreinterpretq_f32_f64(vzip2q_f64(vreinterpretq_f64_f32(x), vreinterpretq_f64_f32(y)));
  };
  const auto finish = [&](float32x4_t sum, int row, int at) {
    if (addend != nullptr) sum = vaddq_f32(sum, vld1q_f32(addend + row * tile.addend_stride + at));
    if (tile.clamp) {
      sum = vminq_f32(vmaxq_f32(sum, vdupq_n_f32(tile.low)), vdupq_n_f32(tile.high));
    }
    vst1q_f32(out + row * tile.ldc + at, sum);
  };
  for (int64_t i = 0; i < tile.count; ++i) {
    float32x4_t sums[4][6];
    Unroll<4>([&](auto r) {
      Unroll<3>([&](auto c) {
        const float32x4_t upper = vld1q_f32(init + 2 * r * tile.init_stride + 4 * c);
        const float32x4_t lower = vld1q_f32(init + (2 * r + 1) * tile.init_stride + 4 * c);
        sums[r][2 * c] = zip1(upper, lower);
        sums[r][2 * c + 1] = zip2(upper, lower);
      });
    });
    const uint16_t *a = panel, *b = static_cast<const uint16_t*>(tile.b);
    for (int64_t k = 0; k < tile.k; k += 4, a += 4 * kUnitRows, b += 4 * kUnitColumns) {
      Unroll<6>([&](auto c) {
        const bfloat16x8_t columns = LoadBf16(b + 8 * c);
        Unroll<4>(
            [&](auto r) { sums[r][c] = vbfmmlaq_f32(sums[r][c], LoadBf16(a + 8 * r), columns); });
      });
    }
    Unroll<4>([&](auto r) {
      Unroll<3>([&](auto c) {
        finish(zip1(sums[r][2 * c], sums[r][2 * c + 1]), 2 * r, 4 * c);
        finish(zip2(sums[r][2 * c], sums[r][2 * c + 1]), 2 * r + 1, 4 * c);
      });
    });
    panel = reinterpret_cast<const uint16_t*>(reinterpret_cast<const char*>(panel) + tile.a_step);
    init += kUnitRows * tile.init_stride;
    out += kUnitRows * tile.ldc;
    if (addend != nullptr) addend += kUnitRows * tile.addend_stride;
  }
}
#endif

}  // namespace oort::OORT_ISA
