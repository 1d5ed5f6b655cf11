// SPDX-License-Identifier: MIT
// Four rows of the weight times a block of pairs of rows, in assembly: GCC 12 keeps the totals of
// more than four pairs on the stack, and unpacks weights again for each few of them. The twin in
// intrinsics is RunGroups of nibble_pairs.mmla.cpp. Only for that file.
#pragma once

#include "cpu/assembly_neon.h"
#include "layers/quantized_linear/cpu/pair_products_neon.h"
#include "layers/quantized_linear/cpu/row_pairs.h"

#if OORT_HAS_ASSEMBLY

namespace oort::OORT_ISA {

// clang-format off
// Registers 0 to 11 are totals, two of each pair. 12 to 19 are weights, two for eight steps each.
#define OORT_PAIRS_SCALE0 20
#define OORT_PAIRS_SCALE1 21
#define OORT_PAIRS_LEAST 22   // minimums, in f16
#define OORT_PAIRS_ZERO_SUM 31  // kZeroSum, as a float
// Sums of one pair, and of the other where two are multiplied together; x of both, by turns.
#define OORT_PAIRS_SUM0 23
#define OORT_PAIRS_SUM1 28
#define OORT_PAIRS_OTHER0 29
#define OORT_PAIRS_OTHER1 30
#define OORT_PAIRS_X0 24
#define OORT_PAIRS_X1 25
#define OORT_PAIRS_X2 26
#define OORT_PAIRS_X3 27

// Where something of pair p lies in x, of which a NibblePairPiece has 128 bytes.
#define OORT_PAIRS_X_AT(p, offset) "[%[x], #128 * " #p " + " #offset "]\n"
#define OORT_PAIRS_LOAD(to, p, offset) "ldr " OORT_ASM_Q(to) ", " OORT_PAIRS_X_AT(p, offset)
#define OORT_PAIRS_MULTIPLY(sum, weights, x) \
  "usmmla " OORT_ASM_V(sum) ".4s, " OORT_ASM_V(weights) ".16b, " OORT_ASM_V(x) ".16b\n"
#define OORT_PAIRS_TO_FLOAT(sum) OORT_ASM_BINARY(fsub, 4s, sum, sum, OORT_PAIRS_ZERO_SUM)
#define OORT_PAIRS_SET_ZERO_SUM                                                                  \
  "movi " OORT_ASM_V(OORT_PAIRS_ZERO_SUM) ".4s, #0x4b, lsl #24\n"                                \
  "orr " OORT_ASM_V(OORT_PAIRS_ZERO_SUM) ".4s, #0x40, lsl #16\n"

// Sums begin at zero, or, without minimums, at -8 times the sum of x. Both are loaded: loads have
// units of their own, while copies would take turns with the arithmetic.
#define OORT_PAIRS_ZERO(p, sum0, sum1) \
  OORT_ASM_LOAD(sum0, zero_sums, 0) OORT_ASM_LOAD(sum1, zero_sums, 0)
#define OORT_PAIRS_START(p, sum0, sum1) OORT_PAIRS_LOAD(sum0, p, 96) OORT_PAIRS_LOAD(sum1, p, 96)
#define OORT_PAIRS_MINIMUMS(total0, total1, offset)                                              \
  "fmlal v" #total0 ".4s, " OORT_ASM_V(OORT_PAIRS_LEAST) ".4h, " OORT_ASM_V(offset) ".4h\n"      \
  "fmlal2 v" #total1 ".4s, " OORT_ASM_V(OORT_PAIRS_LEAST) ".4h, " OORT_ASM_V(offset) ".4h\n"
#define OORT_PAIRS_NO_MINIMUMS(total0, total1, offset)

// Adds minimums, and leaves the scales of four rows times those of x in two registers.
#define OORT_PAIRS_NUMBERS(p, total0, total1, to0, to1, minimums)                                \
  "ldp " OORT_ASM_Q(to0) ", " OORT_ASM_Q(to1) ", " OORT_PAIRS_X_AT(p, 64)                        \
  minimums(total0, total1, to1)                                                                  \
  OORT_ASM_BINARY(fmul, 4s, to1, OORT_PAIRS_SCALE1, to0)                                         \
  OORT_ASM_BINARY(fmul, 4s, to0, OORT_PAIRS_SCALE0, to0)
#define OORT_PAIRS_TOTAL(total, scale, sum) OORT_ASM_BINARY(fmla, 4s, total, scale, sum)

#define OORT_PAIRS_STEP_ONE(p, weights0, weights1, x, offset)                                    \
  OORT_PAIRS_LOAD(x, p, offset) OORT_PAIRS_MULTIPLY(OORT_PAIRS_SUM0, weights0, x)                \
  OORT_PAIRS_MULTIPLY(OORT_PAIRS_SUM1, weights1, x)
#define OORT_PAIRS_ONE(p, total0, total1, start, minimums)                                       \
  start(p, OORT_PAIRS_SUM0, OORT_PAIRS_SUM1)                                                     \
  OORT_PAIRS_STEP_ONE(p, 12, 13, OORT_PAIRS_X0, 0) OORT_PAIRS_STEP_ONE(p, 14, 15, OORT_PAIRS_X2, 16) \
  OORT_PAIRS_STEP_ONE(p, 16, 17, OORT_PAIRS_X1, 32) OORT_PAIRS_STEP_ONE(p, 18, 19, OORT_PAIRS_X3, 48) \
  OORT_PAIRS_NUMBERS(p, total0, total1, OORT_PAIRS_X0, OORT_PAIRS_X1, minimums)                  \
  OORT_PAIRS_TO_FLOAT(OORT_PAIRS_SUM0) OORT_PAIRS_TO_FLOAT(OORT_PAIRS_SUM1)                      \
  OORT_PAIRS_TOTAL(total0, OORT_PAIRS_X0, OORT_PAIRS_SUM0)                                       \
  OORT_PAIRS_TOTAL(total1, OORT_PAIRS_X1, OORT_PAIRS_SUM1)

// Two pairs together have four chains of products, which keeps more units busy than two do.
#define OORT_PAIRS_STEP_TWO(p, q, weights0, weights1, x, other, offset)                          \
  OORT_PAIRS_LOAD(x, p, offset) OORT_PAIRS_LOAD(other, q, offset)                                \
  OORT_PAIRS_MULTIPLY(OORT_PAIRS_SUM0, weights0, x)                                              \
  OORT_PAIRS_MULTIPLY(OORT_PAIRS_SUM1, weights1, x)                                              \
  OORT_PAIRS_MULTIPLY(OORT_PAIRS_OTHER0, weights0, other)                                        \
  OORT_PAIRS_MULTIPLY(OORT_PAIRS_OTHER1, weights1, other)
#define OORT_PAIRS_TWO(p, q, total0, total1, total2, total3, start, minimums)                    \
  start(p, OORT_PAIRS_SUM0, OORT_PAIRS_SUM1) start(q, OORT_PAIRS_OTHER0, OORT_PAIRS_OTHER1)      \
  OORT_PAIRS_STEP_TWO(p, q, 12, 13, OORT_PAIRS_X0, OORT_PAIRS_X1, 0)                             \
  OORT_PAIRS_STEP_TWO(p, q, 14, 15, OORT_PAIRS_X2, OORT_PAIRS_X3, 16)                            \
  OORT_PAIRS_STEP_TWO(p, q, 16, 17, OORT_PAIRS_X0, OORT_PAIRS_X1, 32)                            \
  OORT_PAIRS_STEP_TWO(p, q, 18, 19, OORT_PAIRS_X2, OORT_PAIRS_X3, 48)                            \
  OORT_PAIRS_NUMBERS(p, total0, total1, OORT_PAIRS_X0, OORT_PAIRS_X1, minimums)                  \
  OORT_PAIRS_NUMBERS(q, total2, total3, OORT_PAIRS_X2, OORT_PAIRS_X3, minimums)                  \
  OORT_PAIRS_TO_FLOAT(OORT_PAIRS_SUM0) OORT_PAIRS_TO_FLOAT(OORT_PAIRS_SUM1)                      \
  OORT_PAIRS_TO_FLOAT(OORT_PAIRS_OTHER0) OORT_PAIRS_TO_FLOAT(OORT_PAIRS_OTHER1)                  \
  OORT_PAIRS_TOTAL(total0, OORT_PAIRS_X0, OORT_PAIRS_SUM0)                                       \
  OORT_PAIRS_TOTAL(total1, OORT_PAIRS_X1, OORT_PAIRS_SUM1)                                       \
  OORT_PAIRS_TOTAL(total2, OORT_PAIRS_X2, OORT_PAIRS_OTHER0)                                     \
  OORT_PAIRS_TOTAL(total3, OORT_PAIRS_X3, OORT_PAIRS_OTHER1)
#define OORT_PAIRS_1(...) OORT_PAIRS_ONE(0, 0, 1, __VA_ARGS__)
#define OORT_PAIRS_2(...) OORT_PAIRS_TWO(0, 1, 0, 1, 2, 3, __VA_ARGS__)
#define OORT_PAIRS_3(...) OORT_PAIRS_2(__VA_ARGS__) OORT_PAIRS_ONE(2, 4, 5, __VA_ARGS__)
#define OORT_PAIRS_4(...) OORT_PAIRS_2(__VA_ARGS__) OORT_PAIRS_TWO(2, 3, 4, 5, 6, 7, __VA_ARGS__)
#define OORT_PAIRS_5(...) OORT_PAIRS_4(__VA_ARGS__) OORT_PAIRS_ONE(4, 8, 9, __VA_ARGS__)
#define OORT_PAIRS_6(...) OORT_PAIRS_4(__VA_ARGS__) OORT_PAIRS_TWO(4, 5, 8, 9, 10, 11, __VA_ARGS__)

// A line holds two weights a byte: see nibble_rows.h for why the low one is only shifted. Two lines
// become the low weights of both, and then their bytes, in the order that NibblePairPiece has.
#define OORT_PAIRS_LINES(low0, low1, whole0, whole1, line0, line1, offset, then)                 \
  OORT_ASM_LOAD(line0, lines, offset) OORT_ASM_LOAD(line1, lines, then)                          \
  "zip1 v" #whole0 ".4s, v" #line0 ".4s, v" #line1 ".4s\n"                                       \
  "zip2 v" #whole1 ".4s, v" #line0 ".4s, v" #line1 ".4s\n"                                       \
  "shl v" #low0 ".16b, v" #whole0 ".16b, #4\n"                                                   \
  "shl v" #low1 ".16b, v" #whole1 ".16b, #4\n"
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
  asm volatile(OORT_PAIRS_SET_ZERO_SUM OORT_PAIRS_LOAD_TOTALS "1:\n"                             \
               OORT_PAIRS_SCALES least OORT_ASM_PREFETCH(pldl3keep, ahead, 0)                    \
               OORT_ASM_PREFETCH(pldl1keep, near, 0) OORT_ASM_PREFETCH(pldl1keep, near, 40)      \
               OORT_PAIRS_LINES(12, 13, 14, 15, 24, 25, 0, 64)                                   \
               OORT_PAIRS_LINES(16, 17, 18, 19, 26, 27, 128, 192)                                \
               "ldrsw %[step], [%[steps]], #4\n" OORT_ASM_ADVANCE(lines, step)                    \
               OORT_ASM_ADVANCE(head, step) OORT_ASM_ADVANCE(ahead, step)                        \
               OORT_ASM_ADVANCE_BY(near, 80)                                                     \
               OORT_PAIRS_##pairs(__VA_ARGS__)                                                   \
               OORT_ASM_ADVANCE_BY(x, 128 * pairs) OORT_ASM_COUNT_DOWN(count) "b.ne 1b\n"        \
               OORT_PAIRS_STORE_TOTALS                                                           \
               : [lines] "+&r"(lines), [head] "+&r"(head), [ahead] "+&r"(ahead), [x] "+&r"(x),   \
                 [near] "+&r"(near),                                                             \
                 [steps] "+&r"(steps), [step] "=&r"(step), [count] "+&r"(count)                  \
               : [totals] "r"(totals), [zero_sums] "r"(kZeroSums)                                \
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
