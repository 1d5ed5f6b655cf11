// SPDX-License-Identifier: MIT
// What the kernels of one row have in common in assembly: registers, lines of weights, and the
// pipeline over the groups of a panel. Only for dot_row_neon.h and nibble_row_neon.h.
//
// The pipeline does the floating-point work of one group between the byte products of the next,
// which the processor alone does not look far enough ahead for. So there are two sets of byte sums,
// which take turns: those of this group, and those of the group before, which it finishes.
#pragma once

#include "cpu/assembly_neon.h"

// clang-format off
// Sets of four registers, of 16 rows each: T totals; A, B and C byte sums; L byte sums of low
// nibbles, where they are summed apart (nibble_row_neon.h); W weights; N their low nibbles.
#define OORT_GROUP_T0 0
#define OORT_GROUP_T1 1
#define OORT_GROUP_T2 2
#define OORT_GROUP_T3 3
#define OORT_GROUP_A0 4
#define OORT_GROUP_A1 5
#define OORT_GROUP_A2 6
#define OORT_GROUP_A3 7
#define OORT_GROUP_B0 8
#define OORT_GROUP_B1 9
#define OORT_GROUP_B2 10
#define OORT_GROUP_B3 11
#define OORT_GROUP_C0 12
#define OORT_GROUP_C1 13
#define OORT_GROUP_C2 14
#define OORT_GROUP_C3 15
#define OORT_GROUP_L0 16
#define OORT_GROUP_L1 17
#define OORT_GROUP_L2 18
#define OORT_GROUP_L3 19
#define OORT_GROUP_W0 20
#define OORT_GROUP_W1 21
#define OORT_GROUP_W2 22
#define OORT_GROUP_W3 23
#define OORT_GROUP_N0 24
#define OORT_GROUP_N1 25
#define OORT_GROUP_N2 26
#define OORT_GROUP_N3 27
#define OORT_GROUP_MASK 31  // 15 in each byte
#define OORT_GROUP_REGISTER(set, i) OORT_GROUP_##set##i

#define OORT_GROUP_ZERO_ONE(i, set) OORT_ASM_SET(4s, OORT_GROUP_REGISTER(set, i), 0)
#define OORT_GROUP_ZERO(set) OORT_ASM_VECTORS_4(OORT_GROUP_ZERO_ONE, set)
// sums += weights times four bytes of x; `dot` is sdot or usdot.
#define OORT_GROUP_DOT_ONE(i, dot, sums, weights, x, lane) \
  OORT_ASM_DOT(dot, OORT_GROUP_REGISTER(sums, i), OORT_GROUP_REGISTER(weights, i), x, lane)
#define OORT_GROUP_DOTS(dot, sums, weights, x, lane) \
  OORT_ASM_VECTORS_4(OORT_GROUP_DOT_ONE, dot, sums, weights, x, lane)
// A line holds two weights a byte.
#define OORT_GROUP_LOW_ONE(i) \
  OORT_ASM_BINARY(and, 16b, OORT_GROUP_REGISTER(N, i), OORT_GROUP_REGISTER(W, i), OORT_GROUP_MASK)
#define OORT_GROUP_LOWS OORT_ASM_VECTORS_4(OORT_GROUP_LOW_ONE)
#define OORT_GROUP_HIGH_ONE(i) \
  OORT_ASM_SHIFT_RIGHT(16b, OORT_GROUP_REGISTER(W, i), OORT_GROUP_REGISTER(W, i), 4)
#define OORT_GROUP_HIGHS OORT_ASM_VECTORS_4(OORT_GROUP_HIGH_ONE)
// The line whose halves lie at lines + first and lines + second.
#define OORT_GROUP_LOAD(first, second)                                                    \
  OORT_ASM_LOAD2(OORT_GROUP_W0, OORT_GROUP_W1, lines, first)                              \
  OORT_ASM_LOAD2(OORT_GROUP_W2, OORT_GROUP_W3, lines, second)
// Prefetches go to the third cache: it takes more requests at a time than the second one, and from
// there on the processor reads ahead by itself.
#define OORT_GROUP_FETCH(from) OORT_ASM_PREFETCH(pldl3keep, ahead, from)
#define OORT_GROUP_FETCH_ALL                                                              \
  OORT_GROUP_FETCH(0) OORT_GROUP_FETCH(64) OORT_GROUP_FETCH(128) OORT_GROUP_FETCH(192)    \
  OORT_GROUP_FETCH(256)
// sum = kFineSteps * sum + fine, with the steps in the register `steps`.
#define OORT_GROUP_ADD_FINE_ONE(i, set, fine, steps)                                      \
  OORT_ASM_BINARY(mul, 4s, OORT_GROUP_REGISTER(set, i), OORT_GROUP_REGISTER(set, i), steps) \
  OORT_ASM_BINARY(add, 4s, OORT_GROUP_REGISTER(set, i), OORT_GROUP_REGISTER(set, i),        \
                  OORT_GROUP_REGISTER(fine, i))
#define OORT_GROUP_ADD_FINE(set, fine, steps) \
  OORT_ASM_VECTORS_4(OORT_GROUP_ADD_FINE_ONE, set, fine, steps)
// The next group begins `bytes` later; the head of this one, whose sums are finished then, lies
// `head_bytes` before its lines.
#define OORT_GROUP_NEXT(head_bytes, bytes)                                                \
  "sub %[head], %[lines], #" OORT_ASM_TEXT(head_bytes) "\n"                               \
  OORT_ASM_ADVANCE_BY(lines, bytes) OORT_ASM_ADVANCE_BY(ahead, bytes)

// finish(i, sums, scales, minimums) turns four byte sums of a group into floats and adds them to
// the totals; scales and minimums are where theirs lie in the head.
#define OORT_GROUP_NO_FINISH(i, sums, scales, minimums)
#define OORT_GROUP_FINISH(finish, sums)                                                   \
  finish(0, sums, 0, 32) finish(1, sums, 8, 40) finish(2, sums, 16, 48) finish(3, sums, 24, 56)
// Either the group, or, where is_fine says that x has two bytes, the rarer `fine_group`: that one
// stands behind the rest, at label `away`, and comes back to label `back`.
#define OORT_GROUP_EITHER(away, back, group) \
  "ldrb w13, [%[is_fine]], #1\n cbnz w13, " #away "f\n" group #back ":\n"
#define OORT_GROUP_AWAY(away, back, fine_group) #away ":\n" fine_group "b " #back "b\n"
// All groups of a panel, `counter` many. `first` has nothing to finish and leaves its sums in the
// set `even`; the others, `odd_group` and `even_group`, finish the group before. `scales` loads the
// scales of x of the group that is finished. Labels 1 to 4.
#define OORT_GROUP_PIPELINE(counter, scales, finish, first, odd_group, odd, even_group, even) \
  first OORT_ASM_COUNT_DOWN(counter) "b.eq 3f\n"                                              \
  "1:\n" scales odd_group OORT_ASM_COUNT_DOWN(counter) "b.eq 2f\n"                            \
  scales even_group OORT_ASM_COUNT_DOWN(counter) "b.ne 1b\n"                                  \
  "3:\n" scales OORT_GROUP_FINISH(finish, even) "b 4f\n"                                      \
  "2:\n" scales OORT_GROUP_FINISH(finish, odd)                                                \
  "4:\n"
// clang-format on
