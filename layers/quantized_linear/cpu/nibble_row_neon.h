// SPDX-License-Identifier: MIT
// One row times panels of nibbles: what a language model does all day. In assembly, for the
// pipeline of group_assembly_neon.h. The twin in intrinsics is NibblePanel of nibble_rows.mmla.cpp,
// whose sums are the same bit by bit. Only for that file.
#pragma once

#include <cstddef>

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
  const FineNibbles* fine_of;  ///< second bytes, as NibbleRows has them
  const int8_t* fine;
  int64_t fine_count;
};

// clang-format off
// `ahead` points to what will be multiplied a little later.
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
// Pieces that have second bytes meet their groups once more, behind the last group of a panel, which
// is in the nearest cache by then. The set W already holds the next panel's first line, so the set B
// takes its place. x12 is the piece, x13 its bytes, x14 how many are left; x15 is where the lines of
// the panel begin, x16 the bytes of a group, x17 where those of the piece's group are.
#define OORT_NIBBLE_FINE_SCALE 14
#define OORT_NIBBLE_FINE_LOW(i) \
  "shl " OORT_ASM_V(OORT_GROUP_REGISTER(N, i)) ".16b, " OORT_ASM_V(OORT_GROUP_REGISTER(B, i)) ".16b, #4\n"
#define OORT_NIBBLE_FINE_LINE(x, low, high, first, second)                                       \
  "ldp " OORT_ASM_Q(OORT_GROUP_B0) ", " OORT_ASM_Q(OORT_GROUP_B1) ", [x17, #" #first "]\n"       \
  "ldp " OORT_ASM_Q(OORT_GROUP_B2) ", " OORT_ASM_Q(OORT_GROUP_B3) ", [x17, #" #second "]\n"      \
  OORT_ASM_VECTORS_4(OORT_NIBBLE_FINE_LOW) OORT_GROUP_DOTS(usdot, A, B, x, high)                 \
  OORT_GROUP_DOTS(usdot, A, N, x, low)
#define OORT_NIBBLE_FINE_ZERO OORT_GROUP_ZERO(A)
#define OORT_NIBBLE_FINE_START                                                                   \
  "ldr w8, [x12, #4]\n dup " OORT_ASM_V(OORT_GROUP_A0) ".4s, w8\n"                             \
  "dup " OORT_ASM_V(OORT_GROUP_A1) ".4s, w8\n dup " OORT_ASM_V(OORT_GROUP_A2) ".4s, w8\n"      \
  "dup " OORT_ASM_V(OORT_GROUP_A3) ".4s, w8\n"
#define OORT_NIBBLE_FINE_TOTAL(i, head_bytes)                                                    \
  "ldr d" OORT_ASM_TEXT(OORT_NIBBLE_HALVES) ", [x17, #8 * " #i " - " #head_bytes "]\n"           \
  "scvtf " OORT_ASM_V(OORT_GROUP_REGISTER(A, i)) ".4s, "                                         \
  OORT_ASM_V(OORT_GROUP_REGISTER(A, i)) ".4s\n"                                                  \
  "fcvtl " OORT_ASM_V(OORT_NIBBLE_SCALE) ".4s, " OORT_ASM_V(OORT_NIBBLE_HALVES) ".4h\n"          \
  OORT_ASM_FMUL_LANE(OORT_NIBBLE_SCALE, OORT_NIBBLE_SCALE, OORT_NIBBLE_FINE_SCALE, 0)            \
  OORT_ASM_BINARY(fmla, 4s, OORT_GROUP_REGISTER(T, i), OORT_NIBBLE_SCALE, OORT_GROUP_REGISTER(A, i))
#define OORT_NIBBLE_FINE(start, head_bytes, bytes)                                               \
  "mov x14, %[fine_count]\n cbz x14, 14f\n"                                                      \
  "mov x12, %[fine_of]\n mov x13, %[fine]\n mov x16, #" #bytes "\n"                              \
  "msub x15, %[groups], x16, %[lines]\n"                                                         \
  "13:\n ldrsw x17, [x12]\n madd x17, x17, x16, x15\n"                                           \
  "ldp " OORT_ASM_Q(OORT_NIBBLE_X0) ", " OORT_ASM_Q(OORT_NIBBLE_X1) ", [x13], #32\n"             \
  "ldr s" OORT_ASM_TEXT(OORT_NIBBLE_FINE_SCALE) ", [x12, #8]\n" start                            \
  OORT_NIBBLE_FINE_LINE(OORT_NIBBLE_X0, 0, 1, 0, 32)                                             \
  OORT_NIBBLE_FINE_LINE(OORT_NIBBLE_X0, 2, 3, 64, 96)                                            \
  OORT_NIBBLE_FINE_LINE(OORT_NIBBLE_X1, 0, 1, 128, 160)                                          \
  OORT_NIBBLE_FINE_LINE(OORT_NIBBLE_X1, 2, 3, 192, 224)                                          \
  OORT_NIBBLE_FINE_TOTAL(0, head_bytes) OORT_NIBBLE_FINE_TOTAL(1, head_bytes)                    \
  OORT_NIBBLE_FINE_TOTAL(2, head_bytes) OORT_NIBBLE_FINE_TOTAL(3, head_bytes)                    \
  "add x12, x12, #12\n subs x14, x14, #1\n b.ne 13b\n 14:\n"

#define OORT_NIBBLE_TIMES_POWER(i) \
  OORT_ASM_FMUL_LANE(OORT_GROUP_REGISTER(T, i), OORT_GROUP_REGISTER(T, i), OORT_NIBBLE_NUMBERS, 0)
#define OORT_NIBBLE_PANELS(fine, start, finish, ...)                                             \
  OORT_ASM_SET(16b, OORT_GROUP_MASK, 15)                                                         \
  OORT_ASM_SET(4s, OORT_NIBBLE_SIXTEEN, 16) OORT_GROUP_LOAD(0, 32)                               \
  "12:\n mov %[left], %[groups]\n" OORT_GROUP_ZERO(T)                                            \
  OORT_GROUP_PIPELINE(                                                                           \
      left, OORT_NIBBLE_LOAD_NUMBERS, finish,                                                    \
      OORT_NIBBLE_GROUP(start, OORT_GROUP_NO_FINISH, __VA_ARGS__, A, B),                         \
      OORT_NIBBLE_GROUP(start, finish, __VA_ARGS__, B, A), B,                                    \
      OORT_NIBBLE_GROUP(start, finish, __VA_ARGS__, A, B), A)                                    \
  fine "ldr s" OORT_ASM_TEXT(OORT_NIBBLE_NUMBERS) ", %[power]\n"                                 \
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
               : [groups] "r"(x.groups), [starts] "r"(x.start), [power] "m"(x.power),            \
                 [fine_of] "r"(x.fine_of), [fine] "r"(x.fine), [fine_count] "r"(x.fine_count)    \
               : "cc", "memory", "x12", "x13", "x14", "x15", "x16", "x17", "x8",                 \
                 OORT_ASM_ALL_VECTORS)
// clang-format on

/// `panels` panels, one behind the other, at least 1. Reads up to 128 bytes behind them, and
/// fetches as many bytes from `ahead` on.
template <bool minimums>
inline void NibbleRowDot(NibbleRowX x, int64_t panels, const std::byte* panel,
                         const std::byte* ahead, float* y) {
  const std::byte *head = panel, *lines = panel + (minimums ? 64 : 32);
  const int32_t* start = x.start;
  static_assert(sizeof(FineNibbles) == 12 && offsetof(FineNibbles, piece) == 0 &&
                offsetof(FineNibbles, start) == 4 && offsetof(FineNibbles, scale) == 8);
  int64_t left;
  if constexpr (minimums) {
    OORT_NIBBLE_RUN(OORT_NIBBLE_FINE(OORT_NIBBLE_FINE_ZERO, 64, 320), OORT_GROUP_ZERO,
                    OORT_NIBBLE_TOTAL_MINIMUM, 64, 320, 352);
  } else {
    OORT_NIBBLE_RUN(OORT_NIBBLE_FINE(OORT_NIBBLE_FINE_START, 32, 288), OORT_NIBBLE_START,
                    OORT_NIBBLE_TOTAL, 32, 288, 320);
  }
}

}  // namespace oort::OORT_ISA

#endif
