// SPDX-License-Identifier: MIT
// One row times panels of nibbles: what a language model does all day. In assembly, for the
// pipeline of group_assembly_neon.h. The twin in intrinsics is NibblePanel of nibble_rows.mmla.cpp,
// whose sums are the same bit by bit. Only for that file.
#pragma once

#include "layers/quantized_linear/cpu/group_assembly_neon.h"
#include "layers/quantized_linear/cpu/nibble_rows.h"

#if OORT_HAS_ASSEMBLY

namespace oort::OORT_ISA {

/// One row of x.
struct NibbleRowX {
  int64_t groups;  ///< at least 1
  const int8_t* q;
  const uint16_t* numbers;
  const int32_t* start;
  float power;
};

// clang-format off
// `ahead` points to what will be multiplied a little later. Second bytes of x are added behind this.
#define OORT_NIBBLE_X0 12
#define OORT_NIBBLE_X1 13
#define OORT_NIBBLE_NUMBERS 15  // of x: its scale and its offset, in f16; then the power
#define OORT_NIBBLE_HALVES 28   // scales or minimums of four rows
#define OORT_NIBBLE_SCALE 29    // scales of four rows, times that of x
#define OORT_NIBBLE_SIXTEEN 30

// One line of weights, which meets lanes `low` and `high` of x; then the next line is loaded. High
// nibbles are multiplied as whole bytes, see nibble_rows.h.
#define OORT_NIBBLE_LINE(sums, x, low, high, next, then)                                         \
  OORT_GROUP_LOWS OORT_GROUP_DOTS(usdot, sums, W, x, high) OORT_GROUP_LOAD(next, then)           \
  OORT_GROUP_DOTS(sdot, L, N, x, low)
// Four totals get what their byte sums come to.
#define OORT_NIBBLE_LOAD_HALVES(offset) \
  "ldr d" OORT_ASM_TEXT(OORT_NIBBLE_HALVES) ", [%[head], #" #offset "]\n"
#define OORT_NIBBLE_TOTAL(i, sums, scales, minimums)                                             \
  OORT_NIBBLE_LOAD_HALVES(scales) OORT_ASM_SET(4s, OORT_NIBBLE_SCALE, 0)                         \
  "scvtf " OORT_ASM_V(OORT_GROUP_REGISTER(sums, i)) ".4s, "                                      \
  OORT_ASM_V(OORT_GROUP_REGISTER(sums, i)) ".4s\n"                                               \
  OORT_ASM_FMLAL(OORT_NIBBLE_SCALE, OORT_NIBBLE_HALVES, OORT_NIBBLE_NUMBERS, 0)                  \
  OORT_ASM_BINARY(fmla, 4s, OORT_GROUP_REGISTER(T, i), OORT_NIBBLE_SCALE, OORT_GROUP_REGISTER(sums, i))
#define OORT_NIBBLE_TOTAL_MINIMUM(i, sums, scales, minimums)                                     \
  OORT_NIBBLE_LOAD_HALVES(minimums)                                                              \
  OORT_ASM_FMLAL(OORT_GROUP_REGISTER(T, i), OORT_NIBBLE_HALVES, OORT_NIBBLE_NUMBERS, 1)          \
  OORT_NIBBLE_TOTAL(i, sums, scales, minimums)
#define OORT_NIBBLE_LOAD_NUMBERS OORT_ASM_LOAD_ONE_NEXT(s, OORT_NIBBLE_NUMBERS, numbers, 4)
// The sums of a group without minimums begin at -8 times the sum of x. They are loaded four times:
// loads have units of their own, while copies would take turns with the arithmetic.
#define OORT_NIBBLE_START(set)                                                                   \
  OORT_ASM_LOAD(OORT_GROUP_REGISTER(set, 0), start, 0)                                           \
  OORT_ASM_LOAD(OORT_GROUP_REGISTER(set, 1), start, 0)                                           \
  OORT_ASM_LOAD(OORT_GROUP_REGISTER(set, 2), start, 0)                                           \
  OORT_ASM_LOAD_NEXT(OORT_GROUP_REGISTER(set, 3), start)
#define OORT_NIBBLE_ADD_LOW(i, set) \
  OORT_ASM_BINARY(mla, 4s, OORT_GROUP_REGISTER(set, i), OORT_GROUP_REGISTER(L, i), OORT_NIBBLE_SIXTEEN)
// A group of `bytes`, of which `head_bytes` are scales and minimums. Its sums are those of the set
// `a`, and those of the group before, in the set `b`, are finished meanwhile.
#define OORT_NIBBLE_GROUP(start, finish, head_bytes, bytes, then, a, b)                          \
  OORT_ASM_LOAD2_NEXT(OORT_NIBBLE_X0, OORT_NIBBLE_X1, q)                                         \
  start(a) OORT_GROUP_ZERO(L) OORT_GROUP_FETCH(0) OORT_GROUP_FETCH(64)                           \
  OORT_NIBBLE_LINE(a, OORT_NIBBLE_X0, 0, 1, 64, 96) finish(0, b, 0, 32) OORT_GROUP_FETCH(128)    \
  OORT_NIBBLE_LINE(a, OORT_NIBBLE_X0, 2, 3, 128, 160) finish(1, b, 8, 40) OORT_GROUP_FETCH(192)  \
  OORT_NIBBLE_LINE(a, OORT_NIBBLE_X1, 0, 1, 192, 224) finish(2, b, 16, 48) OORT_GROUP_FETCH(256) \
  OORT_NIBBLE_LINE(a, OORT_NIBBLE_X1, 2, 3, bytes, then) finish(3, b, 24, 56)                    \
  OORT_ASM_VECTORS_4(OORT_NIBBLE_ADD_LOW, a) OORT_GROUP_NEXT(head_bytes, bytes)
#define OORT_NIBBLE_TIMES_POWER(i) \
  OORT_ASM_FMUL_LANE(OORT_GROUP_REGISTER(T, i), OORT_GROUP_REGISTER(T, i), OORT_NIBBLE_NUMBERS, 0)
#define OORT_NIBBLE_PANELS(start, finish, ...)                                                   \
  OORT_ASM_SET(16b, OORT_GROUP_MASK, 15)                                                         \
  OORT_ASM_SET(4s, OORT_NIBBLE_SIXTEEN, 16) OORT_GROUP_LOAD(0, 32)                               \
  "12:\n mov %[left], %[groups]\n" OORT_GROUP_ZERO(T)                                            \
  OORT_GROUP_PIPELINE(                                                                           \
      left, OORT_NIBBLE_LOAD_NUMBERS, finish,                                                    \
      OORT_NIBBLE_GROUP(start, OORT_GROUP_NO_FINISH, __VA_ARGS__, A, B),                         \
      OORT_NIBBLE_GROUP(start, finish, __VA_ARGS__, B, A), B,                                    \
      OORT_NIBBLE_GROUP(start, finish, __VA_ARGS__, A, B), A)                                    \
  "ldr s" OORT_ASM_TEXT(OORT_NIBBLE_NUMBERS) ", %[power]\n"                                      \
  OORT_ASM_VECTORS_4(OORT_NIBBLE_TIMES_POWER)                                                    \
  "stp " OORT_ASM_Q(OORT_GROUP_T0) ", " OORT_ASM_Q(OORT_GROUP_T1) ", [%[y]], #32\n"              \
  "stp " OORT_ASM_Q(OORT_GROUP_T2) ", " OORT_ASM_Q(OORT_GROUP_T3) ", [%[y]], #32\n"              \
  "sub %[q], %[q], %[groups], lsl #5\n"                                                          \
  "sub %[numbers], %[numbers], %[groups], lsl #2\n" OORT_ASM_COUNT_DOWN(panels)                  \
  "mov %[start], %[starts]\n mov %[head], %[lines]\n b.ne 12b\n"
#define OORT_NIBBLE_RUN(...)                                                                     \
  asm volatile(OORT_NIBBLE_PANELS(__VA_ARGS__)                                                   \
               : [lines] "+&r"(lines), [head] "+&r"(head), [ahead] "+&r"(ahead), [q] "+&r"(x.q), \
                 [numbers] "+&r"(x.numbers), [start] "+&r"(start), [left] "=&r"(left),           \
                 [panels] "+&r"(panels), [y] "+&r"(y)                                            \
               : [groups] "r"(x.groups), [starts] "r"(x.start), [power] "m"(x.power)             \
               : "cc", "memory", OORT_ASM_ALL_VECTORS)
// clang-format on

/// `panels` panels, one behind the other, at least 1. Reads up to 128 bytes behind them, and
/// fetches as many bytes from `ahead` on.
template <bool minimums>
inline void NibbleRowDot(NibbleRowX x, int64_t panels, const std::byte* panel,
                         const std::byte* ahead, float* y) {
  const std::byte *head = panel, *lines = panel + (minimums ? 64 : 32);
  const int32_t* start = x.start;
  int64_t left;
  if constexpr (minimums) {
    OORT_NIBBLE_RUN(OORT_GROUP_ZERO, OORT_NIBBLE_TOTAL_MINIMUM, 64, 320, 352);
  } else {
    OORT_NIBBLE_RUN(OORT_NIBBLE_START, OORT_NIBBLE_TOTAL, 32, 288, 320);
  }
}

}  // namespace oort::OORT_ISA

#endif
