// SPDX-License-Identifier: MIT
// One row of bytes times a panel of 4 or 8 bits in groups of 32 with f16 scales: what a language
// model does all day. In assembly, for the pipeline of group_assembly_neon.h. The twin in
// intrinsics is DotRows, whose sums are the same bit by bit. Only for quantized_gemv.dot.cpp.
#pragma once

#include "layers/quantized_linear/cpu/dot_row.h"
#include "layers/quantized_linear/cpu/group_assembly_neon.h"
#include "layers/quantized_linear/cpu/quantized_kernels.h"

#if OORT_HAS_ASSEMBLY

namespace oort::OORT_ISA {

// clang-format off
// The row x has two registers of bytes, and two of second bytes (see ByteRows). `ahead` points to
// what will be multiplied a little later.
#define OORT_DOT_X0 16
#define OORT_DOT_X1 17
#define OORT_DOT_X_SCALE 18
#define OORT_DOT_X_OFFSET 19
#define OORT_DOT_SCALES 28
#define OORT_DOT_MINIMUMS 29

#define OORT_DOT_LOAD_SCALE OORT_ASM_LOAD_ONE_NEXT(s, OORT_DOT_X_SCALE, scale, 4)
#define OORT_DOT_LOAD_SCALE_OFFSET \
  OORT_DOT_LOAD_SCALE OORT_ASM_LOAD_ONE_NEXT(s, OORT_DOT_X_OFFSET, offset, 4)
// Four totals get what their byte sums come to: total += sum * scale of x * scale.
#define OORT_DOT_TO_FLOAT(sum) "scvtf " OORT_ASM_V(sum) ".4s, " OORT_ASM_V(sum) ".4s\n"
#define OORT_DOT_LOAD_HALVES(to, offset) "ldr d" OORT_ASM_TEXT(to) ", [%[head], #" #offset "]\n"
#define OORT_DOT_WIDEN(numbers) "fcvtl " OORT_ASM_V(numbers) ".4s, " OORT_ASM_V(numbers) ".4h\n"
#define OORT_DOT_TOTAL(i, sums, scales, minimums)                                               \
  OORT_DOT_LOAD_HALVES(OORT_DOT_SCALES, scales)                                                 \
  OORT_DOT_TO_FLOAT(OORT_GROUP_REGISTER(sums, i)) OORT_DOT_WIDEN(OORT_DOT_SCALES)               \
  OORT_ASM_FMUL_LANE(OORT_GROUP_REGISTER(sums, i), OORT_GROUP_REGISTER(sums, i), OORT_DOT_X_SCALE, 0) \
  OORT_ASM_BINARY(fmla, 4s, OORT_GROUP_REGISTER(T, i), OORT_GROUP_REGISTER(sums, i), OORT_DOT_SCALES)
#define OORT_DOT_TOTAL_MINIMUM(i, sums, scales, minimums)                                       \
  OORT_DOT_LOAD_HALVES(OORT_DOT_SCALES, scales) OORT_DOT_LOAD_HALVES(OORT_DOT_MINIMUMS, minimums) \
  OORT_DOT_TO_FLOAT(OORT_GROUP_REGISTER(sums, i))                                               \
  OORT_DOT_WIDEN(OORT_DOT_SCALES) OORT_DOT_WIDEN(OORT_DOT_MINIMUMS)                             \
  OORT_ASM_FMUL_LANE(OORT_GROUP_REGISTER(sums, i), OORT_GROUP_REGISTER(sums, i), OORT_DOT_X_SCALE, 0) \
  OORT_ASM_FMLA_F32(OORT_GROUP_REGISTER(T, i), OORT_DOT_MINIMUMS, OORT_DOT_X_OFFSET, 0)         \
  OORT_ASM_BINARY(fmla, 4s, OORT_GROUP_REGISTER(T, i), OORT_GROUP_REGISTER(sums, i), OORT_DOT_SCALES)
// The sums of a group without minimums begin at -zero times the sum of x.
#define OORT_DOT_START(set)                                                                     \
  "ldr w12, [%[sum]], #4\n mul w12, w12, %w[zero]\n"                                            \
  "dup " OORT_ASM_V(OORT_GROUP_REGISTER(set, 0)) ".4s, w12\n"                                   \
  OORT_ASM_COPY(OORT_GROUP_REGISTER(set, 1), OORT_GROUP_REGISTER(set, 0))                       \
  OORT_ASM_COPY(OORT_GROUP_REGISTER(set, 2), OORT_GROUP_REGISTER(set, 0))                       \
  OORT_ASM_COPY(OORT_GROUP_REGISTER(set, 3), OORT_GROUP_REGISTER(set, 0))
#define OORT_DOT_STORE \
  OORT_ASM_STORE2(OORT_GROUP_T0, OORT_GROUP_T1, y, 0) OORT_ASM_STORE2(OORT_GROUP_T2, OORT_GROUP_T3, y, 32)

// --- Weights of 4 bits ---------------------------------------------------------------------------
// One line of weights, which meets lanes `low` and `high` of x; then the next line is loaded.
#define OORT_DOT4_LINE(sums, x, low, high, next, then)                                          \
  OORT_GROUP_LOWS OORT_GROUP_HIGHS OORT_GROUP_DOTS(sdot, sums, N, x, low)                       \
  OORT_GROUP_DOTS(sdot, sums, W, x, high) OORT_GROUP_LOAD(next, then)
// A group of `bytes`, of which `head_bytes` are scales and minimums. Its sums are those of the set
// `a`, and those of the group before, in the set `b`, are finished meanwhile.
#define OORT_DOT4_GROUP(start, finish, head_bytes, bytes, then, a, b)                           \
  OORT_ASM_LOAD2_NEXT(OORT_DOT_X0, OORT_DOT_X1, q) OORT_ASM_ADVANCE_BY(fine, 32)                \
  start(a) OORT_GROUP_FETCH(0) OORT_GROUP_FETCH(64)                                             \
  OORT_DOT4_LINE(a, OORT_DOT_X0, 0, 1, 64, 96) finish(0, b, 0, 32) OORT_GROUP_FETCH(128)        \
  OORT_DOT4_LINE(a, OORT_DOT_X0, 2, 3, 128, 160) finish(1, b, 8, 40) OORT_GROUP_FETCH(192)      \
  OORT_DOT4_LINE(a, OORT_DOT_X1, 0, 1, 192, 224) finish(2, b, 16, 48) OORT_GROUP_FETCH(256)     \
  OORT_DOT4_LINE(a, OORT_DOT_X1, 2, 3, bytes, then) finish(3, b, 24, 56)                        \
  OORT_GROUP_NEXT(head_bytes, bytes)
// A group of which x has two bytes: the sums of the second bytes take the place of those of the
// group before, which is finished first.
#define OORT_DOT4_FINE_X0 12
#define OORT_DOT4_FINE_X1 13
#define OORT_DOT4_STEPS 14
#define OORT_DOT4_FINE_LINE(a, b, x, y, low, high, next, then)                                  \
  OORT_GROUP_LOWS OORT_GROUP_HIGHS                                                              \
  OORT_GROUP_DOTS(sdot, a, N, x, low) OORT_GROUP_DOTS(sdot, b, N, y, low)                       \
  OORT_GROUP_DOTS(sdot, a, W, x, high) OORT_GROUP_DOTS(sdot, b, W, y, high)                     \
  OORT_GROUP_LOAD(next, then)
#define OORT_DOT4_FINE_GROUP(start, finish, head_bytes, bytes, then, a, b)                      \
  OORT_ASM_LOAD2_NEXT(OORT_DOT_X0, OORT_DOT_X1, q)                                              \
  OORT_ASM_LOAD2_NEXT(OORT_DOT4_FINE_X0, OORT_DOT4_FINE_X1, fine)                               \
  OORT_GROUP_FINISH(finish, b) OORT_GROUP_ZERO(a) start(b) OORT_GROUP_FETCH_ALL                 \
  OORT_DOT4_FINE_LINE(a, b, OORT_DOT_X0, OORT_DOT4_FINE_X0, 0, 1, 64, 96)                       \
  OORT_DOT4_FINE_LINE(a, b, OORT_DOT_X0, OORT_DOT4_FINE_X0, 2, 3, 128, 160)                     \
  OORT_DOT4_FINE_LINE(a, b, OORT_DOT_X1, OORT_DOT4_FINE_X1, 0, 1, 192, 224)                     \
  OORT_DOT4_FINE_LINE(a, b, OORT_DOT_X1, OORT_DOT4_FINE_X1, 2, 3, bytes, then)                  \
  OORT_GROUP_ADD_FINE(a, b, OORT_DOT4_STEPS) OORT_GROUP_NEXT(head_bytes, bytes)

#define OORT_DOT4_PANEL(scales, start, finish, ...)                                             \
  OORT_GROUP_ZERO(T) OORT_ASM_SET(16b, OORT_GROUP_MASK, 15)                                     \
  "dup " OORT_ASM_V(OORT_DOT4_STEPS) ".4s, %w[steps]\n" OORT_GROUP_LOAD(0, 32)                  \
  OORT_GROUP_PIPELINE(                                                                          \
      groups, scales, finish,                                                                   \
      OORT_GROUP_EITHER(5, 8, OORT_DOT4_GROUP(start, OORT_GROUP_NO_FINISH, __VA_ARGS__, A, B)), \
      OORT_GROUP_EITHER(6, 9, OORT_DOT4_GROUP(start, finish, __VA_ARGS__, B, A)), B,            \
      OORT_GROUP_EITHER(7, 10, OORT_DOT4_GROUP(start, finish, __VA_ARGS__, A, B)), A)           \
  OORT_DOT_STORE "b 11f\n"                                                                      \
  OORT_GROUP_AWAY(5, 8, OORT_DOT4_FINE_GROUP(start, OORT_GROUP_NO_FINISH, __VA_ARGS__, A, B))   \
  OORT_GROUP_AWAY(6, 9, OORT_DOT4_FINE_GROUP(start, finish, __VA_ARGS__, B, A))                 \
  OORT_GROUP_AWAY(7, 10, OORT_DOT4_FINE_GROUP(start, finish, __VA_ARGS__, A, B)) "11:\n"
#define OORT_DOT4_RUN(...)                                                                       \
  asm volatile(OORT_DOT4_PANEL(__VA_ARGS__)                                                      \
               : [lines] "+&r"(lines), [head] "+&r"(head), [ahead] "+&r"(ahead), [q] "+&r"(x.q), \
                 [fine] "+&r"(x.fine), [is_fine] "+&r"(x.is_fine), [scale] "+&r"(x.scale),       \
                 [offset] "+&r"(x.offset), [sum] "+&r"(x.sum), [groups] "+&r"(x.groups)          \
               : [y] "r"(y), [zero] "r"(-zero), [steps] "r"(kFineSteps)                          \
               : "cc", "memory", "x12", "x13", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7",   \
                 "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v16", "v17", "v18", "v19",      \
                 "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v31")
// clang-format on

/// Reads up to 128 bytes behind the panel, and fetches as many bytes from `ahead` on.
template <bool minimums>
inline void DotRowInt4(DotRowX x, int zero, const std::byte* panel, const std::byte* ahead,
                       float* y) {
  const std::byte *head = panel, *lines = panel + (minimums ? 64 : 32);
  if constexpr (minimums) {
    OORT_DOT4_RUN(OORT_DOT_LOAD_SCALE_OFFSET, OORT_GROUP_ZERO, OORT_DOT_TOTAL_MINIMUM, 64, 320,
                  352);
  } else {
    OORT_DOT4_RUN(OORT_DOT_LOAD_SCALE, OORT_DOT_START, OORT_DOT_TOTAL, 32, 288, 320);
  }
}

// --- Weights of 8 bits ---------------------------------------------------------------------------
// All of x has two bytes. The set A holds the sums of the first bytes; B and C hold those of the
// second bytes, then of both, of a group and of the group before.
// clang-format off
#define OORT_DOT8_FINE_X0 24
#define OORT_DOT8_FINE_X1 25
#define OORT_DOT8_STEPS 30
#define OORT_DOT8_LINE(set, x, y, lane, next, then)                                             \
  OORT_GROUP_DOTS(sdot, A, W, x, lane) OORT_GROUP_DOTS(sdot, set, W, y, lane)                   \
  OORT_GROUP_LOAD(next, then)
#define OORT_DOT8_BOTH(i, set) \
  OORT_ASM_BINARY(mla, 4s, OORT_GROUP_REGISTER(set, i), OORT_GROUP_REGISTER(A, i), OORT_DOT8_STEPS)
#define OORT_DOT8_GROUP(finish, set, before)                                                    \
  OORT_ASM_LOAD2_NEXT(OORT_DOT_X0, OORT_DOT_X1, q)                                              \
  OORT_ASM_LOAD2_NEXT(OORT_DOT8_FINE_X0, OORT_DOT8_FINE_X1, fine)                               \
  OORT_GROUP_ZERO(A) OORT_GROUP_ZERO(set) OORT_GROUP_FETCH(0) OORT_GROUP_FETCH(64)              \
  OORT_DOT8_LINE(set, OORT_DOT_X0, OORT_DOT8_FINE_X0, 0, 64, 96)                                \
  finish(0, before, 0, 0) OORT_GROUP_FETCH(128)                                                 \
  OORT_DOT8_LINE(set, OORT_DOT_X0, OORT_DOT8_FINE_X0, 1, 128, 160)                              \
  finish(1, before, 8, 0) OORT_GROUP_FETCH(192)                                                 \
  OORT_DOT8_LINE(set, OORT_DOT_X0, OORT_DOT8_FINE_X0, 2, 192, 224)                              \
  finish(2, before, 16, 0) OORT_GROUP_FETCH(256)                                                \
  OORT_DOT8_LINE(set, OORT_DOT_X0, OORT_DOT8_FINE_X0, 3, 256, 288)                              \
  finish(3, before, 24, 0) OORT_GROUP_FETCH(320)                                                \
  OORT_DOT8_LINE(set, OORT_DOT_X1, OORT_DOT8_FINE_X1, 0, 320, 352) OORT_GROUP_FETCH(384)        \
  OORT_DOT8_LINE(set, OORT_DOT_X1, OORT_DOT8_FINE_X1, 1, 384, 416) OORT_GROUP_FETCH(448)        \
  OORT_DOT8_LINE(set, OORT_DOT_X1, OORT_DOT8_FINE_X1, 2, 448, 480) OORT_GROUP_FETCH(512)        \
  OORT_DOT8_LINE(set, OORT_DOT_X1, OORT_DOT8_FINE_X1, 3, 544, 576)                              \
  OORT_ASM_VECTORS_4(OORT_DOT8_BOTH, set) OORT_GROUP_NEXT(32, 544)

/// Reads and fetches as DotRowInt4 does.
inline void DotRowInt8(DotRowX x, const std::byte* panel, const std::byte* ahead, float* y) {
  const std::byte *head = panel, *lines = panel + 32;
  asm volatile(
      OORT_GROUP_ZERO(T) "dup " OORT_ASM_V(OORT_DOT8_STEPS) ".4s, %w[steps]\n" OORT_GROUP_LOAD(0, 32)
      OORT_GROUP_PIPELINE(groups, OORT_DOT_LOAD_SCALE, OORT_DOT_TOTAL,
                          OORT_DOT8_GROUP(OORT_GROUP_NO_FINISH, B, C),
                          OORT_DOT8_GROUP(OORT_DOT_TOTAL, C, B), C,
                          OORT_DOT8_GROUP(OORT_DOT_TOTAL, B, C), B)
      OORT_DOT_STORE
      : [lines] "+&r"(lines), [head] "+&r"(head), [ahead] "+&r"(ahead), [q] "+&r"(x.q),
        [fine] "+&r"(x.fine), [scale] "+&r"(x.scale), [groups] "+&r"(x.groups)
      : [y] "r"(y), [steps] "r"(kFineSteps)
      : "cc", "memory", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11",
        "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v20", "v21", "v22", "v23", "v24", "v25",
        "v28", "v30");
}
// clang-format on

}  // namespace oort::OORT_ISA

#endif
