// SPDX-License-Identifier: MIT
// Four rows of the weight times a block of pairs of rows, in assembly: GCC 12 keeps the totals of
// more than four pairs on the stack, and unpacks weights again for each few of them. The twin in
// intrinsics is GroupsTimesPairs of nibble_pairs.mmla.cpp. Only for that file.
#pragma once

#include "cpu/assembly_neon.h"
#include "layers/quantized_linear/cpu/row_pairs.h"

#if OORT_HAS_ASSEMBLY

namespace oort::OORT_ISA {

// clang-format off
// Registers 0 to 11 are totals, two of each pair. 12 to 19 are weights, two for eight steps each.
#define OORT_PAIRS_SCALE0 20
#define OORT_PAIRS_SCALE1 21
#define OORT_PAIRS_LEAST 22   // minimums, in f16
#define OORT_PAIRS_SUM0 23
#define OORT_PAIRS_SUM1 28
#define OORT_PAIRS_X0 24
#define OORT_PAIRS_X1 25
#define OORT_PAIRS_X2 26
#define OORT_PAIRS_X3 27
#define OORT_PAIRS_X_SCALE 29
#define OORT_PAIRS_X_OFFSET 30

// Where something of pair p lies in x, of which a NibblePairPiece has 128 bytes.
#define OORT_PAIRS_X_AT(p, offset) "[%[x], #128 * " #p " + " #offset "]\n"
#define OORT_PAIRS_LOAD2(to0, to1, p, offset) \
  "ldp " OORT_ASM_Q(to0) ", " OORT_ASM_Q(to1) ", " OORT_PAIRS_X_AT(p, offset)
#define OORT_PAIRS_MULTIPLY(sum, weights, x) \
  "usmmla " OORT_ASM_V(sum) ".4s, " OORT_ASM_V(weights) ".16b, " OORT_ASM_V(x) ".16b\n"
#define OORT_PAIRS_STEP(weights0, weights1, x)                                                   \
  OORT_PAIRS_MULTIPLY(OORT_PAIRS_SUM0, weights0, x) OORT_PAIRS_MULTIPLY(OORT_PAIRS_SUM1, weights1, x)
#define OORT_PAIRS_TO_FLOAT(sum) "scvtf " OORT_ASM_V(sum) ".4s, " OORT_ASM_V(sum) ".4s\n"

// Sums begin at zero, or, without minimums, at -8 times the sum of x.
#define OORT_PAIRS_ZERO(p) OORT_ASM_SET(4s, OORT_PAIRS_SUM0, 0) OORT_ASM_SET(4s, OORT_PAIRS_SUM1, 0)
#define OORT_PAIRS_START(p)                                                                      \
  "ldr " OORT_ASM_Q(OORT_PAIRS_SUM0) ", " OORT_PAIRS_X_AT(p, 96)                                 \
  "ldr " OORT_ASM_Q(OORT_PAIRS_SUM1) ", " OORT_PAIRS_X_AT(p, 96)
#define OORT_PAIRS_MINIMUMS(total0, total1)                                                      \
  "fmlal v" #total0 ".4s, " OORT_ASM_V(OORT_PAIRS_LEAST) ".4h, "                                 \
  OORT_ASM_V(OORT_PAIRS_X_OFFSET) ".4h\n"                                                        \
  "fmlal2 v" #total1 ".4s, " OORT_ASM_V(OORT_PAIRS_LEAST) ".4h, "                                \
  OORT_ASM_V(OORT_PAIRS_X_OFFSET) ".4h\n"
#define OORT_PAIRS_NO_MINIMUMS(total0, total1)

#define OORT_PAIRS_ONE(p, total0, total1, start, minimums)                                       \
  OORT_PAIRS_LOAD2(OORT_PAIRS_X0, OORT_PAIRS_X1, p, 0) start(p)                                  \
  OORT_PAIRS_STEP(12, 13, OORT_PAIRS_X0) OORT_PAIRS_STEP(14, 15, OORT_PAIRS_X1)                  \
  OORT_PAIRS_LOAD2(OORT_PAIRS_X2, OORT_PAIRS_X3, p, 32)                                          \
  OORT_PAIRS_STEP(16, 17, OORT_PAIRS_X2) OORT_PAIRS_STEP(18, 19, OORT_PAIRS_X3)                  \
  OORT_PAIRS_LOAD2(OORT_PAIRS_X_SCALE, OORT_PAIRS_X_OFFSET, p, 64) minimums(total0, total1)      \
  OORT_ASM_BINARY(fmul, 4s, OORT_PAIRS_X0, OORT_PAIRS_SCALE0, OORT_PAIRS_X_SCALE)                \
  OORT_ASM_BINARY(fmul, 4s, OORT_PAIRS_X1, OORT_PAIRS_SCALE1, OORT_PAIRS_X_SCALE)                \
  OORT_PAIRS_TO_FLOAT(OORT_PAIRS_SUM0) OORT_PAIRS_TO_FLOAT(OORT_PAIRS_SUM1)                      \
  OORT_ASM_BINARY(fmla, 4s, total0, OORT_PAIRS_X0, OORT_PAIRS_SUM0)                              \
  OORT_ASM_BINARY(fmla, 4s, total1, OORT_PAIRS_X1, OORT_PAIRS_SUM1)
#define OORT_PAIRS_1(...) OORT_PAIRS_ONE(0, 0, 1, __VA_ARGS__)
#define OORT_PAIRS_2(...) OORT_PAIRS_1(__VA_ARGS__) OORT_PAIRS_ONE(1, 2, 3, __VA_ARGS__)
#define OORT_PAIRS_3(...) OORT_PAIRS_2(__VA_ARGS__) OORT_PAIRS_ONE(2, 4, 5, __VA_ARGS__)
#define OORT_PAIRS_4(...) OORT_PAIRS_3(__VA_ARGS__) OORT_PAIRS_ONE(3, 6, 7, __VA_ARGS__)
#define OORT_PAIRS_5(...) OORT_PAIRS_4(__VA_ARGS__) OORT_PAIRS_ONE(4, 8, 9, __VA_ARGS__)
#define OORT_PAIRS_6(...) OORT_PAIRS_5(__VA_ARGS__) OORT_PAIRS_ONE(5, 10, 11, __VA_ARGS__)

// A line holds two weights a byte: see nibble_rows.h for why the low one is only shifted.
#define OORT_PAIRS_LINE(w, other, temporary, offset)                                             \
  OORT_ASM_LOAD(w, lines, offset)                                                                \
  "shl v" #temporary ".16b, v" #w ".16b, #4\n"                                                   \
  "zip2 v" #other ".4s, v" #temporary ".4s, v" #w ".4s\n"                                        \
  "zip1 v" #w ".4s, v" #temporary ".4s, v" #w ".4s\n"
// Numbers of four rows twice each, as 2 x 2 sums have them.
#define OORT_PAIRS_HALVES(to, offset)                                                            \
  "ldr d" OORT_ASM_TEXT(to) ", " OORT_ASM_AT(head, offset) "\n"                                  \
  OORT_ASM_BINARY(zip1, 8h, to, to, to)
#define OORT_PAIRS_SCALES                                                                        \
  OORT_PAIRS_HALVES(OORT_PAIRS_SCALE0, 0)                                                        \
  "fcvtl2 " OORT_ASM_V(OORT_PAIRS_SCALE1) ".4s, " OORT_ASM_V(OORT_PAIRS_SCALE0) ".8h\n"          \
  "fcvtl " OORT_ASM_V(OORT_PAIRS_SCALE0) ".4s, " OORT_ASM_V(OORT_PAIRS_SCALE0) ".4h\n"
#define OORT_PAIRS_LEASTS OORT_PAIRS_HALVES(OORT_PAIRS_LEAST, 32)

#define OORT_PAIRS_LOAD_TOTALS                                                                   \
  OORT_ASM_LOAD2(0, 1, totals, 0) OORT_ASM_LOAD2(2, 3, totals, 32)                               \
  OORT_ASM_LOAD2(4, 5, totals, 64) OORT_ASM_LOAD2(6, 7, totals, 96)                              \
  OORT_ASM_LOAD2(8, 9, totals, 128) OORT_ASM_LOAD2(10, 11, totals, 160)
#define OORT_PAIRS_STORE_TOTALS                                                                  \
  OORT_ASM_STORE2(0, 1, totals, 0) OORT_ASM_STORE2(2, 3, totals, 32)                             \
  OORT_ASM_STORE2(4, 5, totals, 64) OORT_ASM_STORE2(6, 7, totals, 96)                            \
  OORT_ASM_STORE2(8, 9, totals, 128) OORT_ASM_STORE2(10, 11, totals, 160)
#define OORT_PAIRS_GROUPS(pairs, least, ...)                                                     \
  asm volatile(OORT_PAIRS_LOAD_TOTALS "1:\n"                                                     \
               OORT_PAIRS_SCALES least OORT_ASM_PREFETCH(pldl3keep, ahead, 0)                    \
               OORT_ASM_PREFETCH(pldl1keep, near, 0) OORT_ASM_PREFETCH(pldl1keep, near, 40)      \
               OORT_PAIRS_LINE(12, 13, 24, 0) OORT_PAIRS_LINE(14, 15, 25, 64)                    \
               OORT_PAIRS_LINE(16, 17, 26, 128) OORT_PAIRS_LINE(18, 19, 27, 192)                 \
               "ldrsw %[step], [%[steps]], #4\n" OORT_ASM_ADVANCE(lines, step)                    \
               OORT_ASM_ADVANCE(head, step) OORT_ASM_ADVANCE(ahead, step)                        \
               OORT_ASM_ADVANCE_BY(near, 80)                                                     \
               OORT_PAIRS_##pairs(__VA_ARGS__)                                                   \
               OORT_ASM_ADVANCE_BY(x, 128 * pairs) OORT_ASM_COUNT_DOWN(count) "b.ne 1b\n"        \
               OORT_PAIRS_STORE_TOTALS                                                           \
               : [lines] "+&r"(lines), [head] "+&r"(head), [ahead] "+&r"(ahead), [x] "+&r"(x),   \
                 [near] "+&r"(near),                                                             \
                 [steps] "+&r"(steps), [step] "=&r"(step), [count] "+&r"(count)                  \
               : [totals] "r"(totals)                                                            \
               : "cc", "memory", OORT_ASM_ALL_VECTORS);
#define OORT_PAIRS_CASE(pairs)                                                                   \
  case pairs:                                                                                    \
    if constexpr (minimums) {                                                                    \
      OORT_PAIRS_GROUPS(pairs, OORT_PAIRS_LEASTS, OORT_PAIRS_ZERO, OORT_PAIRS_MINIMUMS)          \
    } else {                                                                                     \
      OORT_PAIRS_GROUPS(pairs, "", OORT_PAIRS_START, OORT_PAIRS_NO_MINIMUMS)                     \
    }                                                                                            \
    break;
// clang-format on

/// totals[pair][2] += `count` groups, at least 1, times a block of pairs. `steps` says how many
/// bytes further on the next group is. For each group a line of the cache is prefetched at `ahead`,
/// from memory, and 80 bytes at `near`, to the L1 cache: a quarter of a group, so that four calls
/// prefetch as much as they multiply.
template <bool minimums>
inline void RunGroups(const std::byte* lines, const std::byte* head, const std::byte* ahead,
                      const std::byte* near, const int32_t* steps, const NibblePairPiece* x,
                      int pairs, int64_t count, float* totals) {
  int64_t step;
  static_assert(sizeof(NibblePairPiece) == 128 && kBlockPairs == 6);
  switch (pairs) {
    OORT_PAIRS_CASE(1)
    OORT_PAIRS_CASE(2)
    OORT_PAIRS_CASE(3)
    OORT_PAIRS_CASE(4)
    OORT_PAIRS_CASE(5)
    OORT_PAIRS_CASE(6)
    default: break;
  }
}

}  // namespace oort::OORT_ISA

#endif
