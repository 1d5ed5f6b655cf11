// SPDX-License-Identifier: MIT
// One row times panels: what a language model does all day. In assembly, so that the
// floating-point work of one group stands between the byte products of the next. The sums are those
// of HalfPanel, bit by bit. Only for nibble_rows.mmla.cpp.
#pragma once

#include <arm_neon.h>

#include "layers/quantized_linear/cpu/nibble_rows.h"

namespace oort::OORT_ISA {

/// One row of x.
struct NibbleRowX {
  int64_t groups;  ///< at least 1
  const int8_t* q;
  int64_t fine;  ///< bytes from q to the second bytes
  const uint8_t* is_fine;
  const uint16_t* numbers;
  const int32_t* start;
  float power;
};

// v0 to v3: totals; v4 to v7 and v8 to v11: byte sums of a group and of the one before; v16 to v19:
// those of low nibbles; v12, v13: x; v14: steps of second bytes; v15: scale and offset of x; v20 to
// v23: weights, v24 to v27: their low nibbles; v28, v29: scales, or second bytes of x; v30: 16;
// v31: mask. `ahead` is what will be multiplied a little later.
// clang-format off
#define OORT_DOT(dot, sum, weights, x, lane) \
  #dot " v" #sum ".4s, v" #weights ".16b, v" #x ".4b[" #lane "]\n"
#define OORT_DOTS(dot, a0, a1, a2, a3, w0, w1, w2, w3, x, lane)       \
  OORT_DOT(dot, a0, w0, x, lane) OORT_DOT(dot, a1, w1, x, lane)       \
  OORT_DOT(dot, a2, w2, x, lane) OORT_DOT(dot, a3, w3, x, lane)
#define OORT_LOWS                                                   \
  "and v24.16b, v20.16b, v31.16b\n and v25.16b, v21.16b, v31.16b\n" \
  "and v26.16b, v22.16b, v31.16b\n and v27.16b, v23.16b, v31.16b\n"
#define OORT_HIGHS                                          \
  "ushr v20.16b, v20.16b, #4\n ushr v21.16b, v21.16b, #4\n" \
  "ushr v22.16b, v22.16b, #4\n ushr v23.16b, v23.16b, #4\n"
#define OORT_LOAD(next, then) \
  "ldp q20, q21, [%[lines], #" #next "]\n ldp q22, q23, [%[lines], #" #then "]\n"
// One line of weights, and the load of the next.
#define OORT_LINE(a0, a1, a2, a3, x, low, high, next, then)                              \
  OORT_LOWS OORT_DOTS(usdot, a0, a1, a2, a3, 20, 21, 22, 23, x, high) OORT_LOAD(next, then) \
  OORT_DOTS(sdot, 16, 17, 18, 19, 24, 25, 26, 27, x, low)
// Four totals get what their byte sums come to.
#define OORT_TOTAL(total, sum, scales, minimums)                                                  \
  "ldr d28, [%[head], #" #scales "]\n movi v29.4s, #0\n scvtf v" #sum ".4s, v" #sum ".4s\n"       \
  "fmlal v29.4s, v28.4h, v15.h[0]\n fmla v" #total ".4s, v29.4s, v" #sum ".4s\n"
#define OORT_TOTAL_MINIMUM(total, sum, scales, minimums) OORT_TOTAL(total, sum, scales, minimums) \
  "ldr d28, [%[head], #" #minimums "]\n fmlal v" #total ".4s, v28.4h, v15.h[1]\n"
#define OORT_NOTHING(total, sum, scales, minimums)
#define OORT_NUMBERS "ldr s15, [%[numbers]], #4\n"
#define OORT_ZERO(a0, a1, a2, a3) \
  "movi v" #a0 ".4s, #0\n movi v" #a1 ".4s, #0\n movi v" #a2 ".4s, #0\n movi v" #a3 ".4s, #0\n"
// Loads have units of their own, while copies would take turns with the arithmetic.
#define OORT_START(a0, a1, a2, a3)                                    \
  "ldr q" #a0 ", [%[start]]\n ldr q" #a1 ", [%[start]]\n ldr q" #a2 ", [%[start]]\n ldr q" #a3 \
  ", [%[start]], #16\n"
// To the third cache: it is asked for more lines at a time than the second one, and from there on
// the processor reads ahead by itself.
#define OORT_AHEAD(from) "prfm pldl3keep, [%[ahead], #" #from "]\n"
#define OORT_LOWS_TO(a0, a1, a2, a3)                                              \
  "mla v" #a0 ".4s, v16.4s, v30.4s\n mla v" #a1 ".4s, v17.4s, v30.4s\n"           \
  "mla v" #a2 ".4s, v18.4s, v30.4s\n mla v" #a3 ".4s, v19.4s, v30.4s\n"
#define OORT_NEXT_GROUP(head_bytes, bytes)                                     \
  "sub %[head], %[lines], #" #head_bytes "\n add %[lines], %[lines], #" #bytes \
  "\n add %[ahead], %[ahead], #" #bytes "\n"
// A group of `bytes`, of which `head_bytes` are scales and minimums.
#define OORT_GROUP(start, finish, head_bytes, bytes, then, a0, a1, a2, a3, b0, b1, b2, b3)  \
  "ldp q12, q13, [%[q]], #32\n"                                                             \
  start(a0, a1, a2, a3) OORT_ZERO(16, 17, 18, 19) OORT_AHEAD(0) OORT_AHEAD(64)              \
  OORT_LINE(a0, a1, a2, a3, 12, 0, 1, 64, 96) finish(0, b0, 0, 32) OORT_AHEAD(128)          \
  OORT_LINE(a0, a1, a2, a3, 12, 2, 3, 128, 160) finish(1, b1, 8, 40) OORT_AHEAD(192)        \
  OORT_LINE(a0, a1, a2, a3, 13, 0, 1, 192, 224) finish(2, b2, 16, 48) OORT_AHEAD(256)       \
  OORT_LINE(a0, a1, a2, a3, 13, 2, 3, bytes, then) finish(3, b3, 24, 56)                    \
  OORT_LOWS_TO(a0, a1, a2, a3) OORT_NEXT_GROUP(head_bytes, bytes)
// A group of which x has two bytes: the group before is finished first.
#define OORT_FINE_GROUP(start, finish, head_bytes, bytes, then, a0, a1, a2, a3, b0, b1, b2, b3) \
  OORT_LAST(finish, b0, b1, b2, b3)                                                             \
  "add x12, %[q], %[fine]\n ldp q12, q13, [%[q]], #32\n ldp q28, q29, [x12]\n"                  \
  OORT_ZERO(a0, a1, a2, a3) start(16, 17, 18, 19)                                               \
  OORT_AHEAD(0) OORT_AHEAD(64) OORT_AHEAD(128) OORT_AHEAD(192) OORT_AHEAD(256)                  \
  OORT_FINE_LINE(a0, a1, a2, a3, 12, 28, 0, 1, 64, 96)                                          \
  OORT_FINE_LINE(a0, a1, a2, a3, 12, 28, 2, 3, 128, 160)                                        \
  OORT_FINE_LINE(a0, a1, a2, a3, 13, 29, 0, 1, 192, 224)                                        \
  OORT_FINE_LINE(a0, a1, a2, a3, 13, 29, 2, 3, bytes, then)                                     \
  OORT_TWO(a0, 16) OORT_TWO(a1, 17) OORT_TWO(a2, 18) OORT_TWO(a3, 19)                           \
  OORT_NEXT_GROUP(head_bytes, bytes)
#define OORT_TWO(a, b) \
  "mul v" #a ".4s, v" #a ".4s, v14.4s\n add v" #a ".4s, v" #a ".4s, v" #b ".4s\n"
#define OORT_FINE_LINE(a0, a1, a2, a3, x, y, low, high, next, then) OORT_LOWS OORT_HIGHS \
  OORT_DOTS(sdot, a0, a1, a2, a3, 24, 25, 26, 27, x, low)                                \
  OORT_DOTS(sdot, 16, 17, 18, 19, 24, 25, 26, 27, y, low)                                \
  OORT_DOTS(sdot, a0, a1, a2, a3, 20, 21, 22, 23, x, high)                               \
  OORT_DOTS(sdot, 16, 17, 18, 19, 20, 21, 22, 23, y, high) OORT_LOAD(next, then)
// One of both: the rarer stands behind the rest, at label `away`, and comes back to `back`.
#define OORT_EITHER(away, back, ...)                                              \
  "ldrb w13, [%[is_fine]], #1\n cbnz w13, " #away "f\n" OORT_GROUP(__VA_ARGS__) #back ":\n"
#define OORT_AWAY(away, back, ...) #away ":\n" OORT_FINE_GROUP(__VA_ARGS__) "b " #back "b\n"
#define OORT_LAST(finish, b0, b1, b2, b3) \
  finish(0, b0, 0, 32) finish(1, b1, 8, 40) finish(2, b2, 16, 48) finish(3, b3, 24, 56)
#define OORT_PANELS(start, finish, head_bytes, bytes, then)                                      \
  "movi v31.16b, #15\n dup v14.4s, %w[steps]\n movi v30.4s, #16\n" OORT_LOAD(0, 32)              \
  "12:\n mov %[left], %[groups]\n" OORT_ZERO(0, 1, 2, 3)                                         \
  OORT_EITHER(5, 8, start, OORT_NOTHING, head_bytes, bytes, then, 4, 5, 6, 7, 8, 9, 10, 11)      \
  "subs %[left], %[left], #1\n b.eq 3f\n1:\n" OORT_NUMBERS                                       \
  OORT_EITHER(6, 9, start, finish, head_bytes, bytes, then, 8, 9, 10, 11, 4, 5, 6, 7)            \
  "subs %[left], %[left], #1\n b.eq 2f\n" OORT_NUMBERS                                           \
  OORT_EITHER(7, 10, start, finish, head_bytes, bytes, then, 4, 5, 6, 7, 8, 9, 10, 11)           \
  "subs %[left], %[left], #1\n b.ne 1b\n3:\n" OORT_NUMBERS                                       \
  OORT_LAST(finish, 4, 5, 6, 7) "b 4f\n2:\n" OORT_NUMBERS                                        \
  OORT_LAST(finish, 8, 9, 10, 11) "4:\n ldr s15, %[power]\n fmul v0.4s, v0.4s, v15.s[0]\n"       \
  "fmul v1.4s, v1.4s, v15.s[0]\n fmul v2.4s, v2.4s, v15.s[0]\n"                                  \
  "fmul v3.4s, v3.4s, v15.s[0]\n stp q0, q1, [%[y]], #32\n stp q2, q3, [%[y]], #32\n"            \
  "sub %[q], %[q], %[groups], lsl #5\n sub %[is_fine], %[is_fine], %[groups]\n"                  \
  "sub %[numbers], %[numbers], %[groups], lsl #2\n subs %[panels], %[panels], #1\n"              \
  "mov %[start], %[starts]\n mov %[head], %[lines]\n b.ne 12b\n b 11f\n"                         \
  OORT_AWAY(5, 8, start, OORT_NOTHING, head_bytes, bytes, then, 4, 5, 6, 7, 8, 9, 10, 11)        \
  OORT_AWAY(6, 9, start, finish, head_bytes, bytes, then, 8, 9, 10, 11, 4, 5, 6, 7)              \
  OORT_AWAY(7, 10, start, finish, head_bytes, bytes, then, 4, 5, 6, 7, 8, 9, 10, 11) "11:\n"
#define OORT_RUN_PANELS(...)                                                                     \
  asm volatile(OORT_PANELS(__VA_ARGS__)                                                          \
               : [lines] "+&r"(lines), [head] "+&r"(head), [ahead] "+&r"(ahead), [q] "+&r"(x.q), \
                 [is_fine] "+&r"(x.is_fine), [numbers] "+&r"(x.numbers), [start] "+&r"(start),   \
                 [left] "=&r"(left), [panels] "+&r"(panels), [y] "+&r"(y)                        \
               : [groups] "r"(x.groups), [fine] "r"(x.fine), [starts] "r"(x.start),              \
                 [steps] "r"(kFineSteps), [power] "m"(x.power)                                   \
               : "cc", "memory", "x12", "x13", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7",   \
                 "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16", "v17", "v18",      \
                 "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29",    \
                 "v30", "v31")
// clang-format on

/// `panels` panels, one behind the other, at least 1. Reads up to 128 bytes behind them, and brings
/// as many bytes from `ahead` on nearer.
template <bool minimums>
inline void HalfRowDot(NibbleRowX x, int64_t panels, const std::byte* panel, const std::byte* ahead,
                       float* y) {
  const std::byte *head = panel, *lines = panel + (minimums ? 64 : 32);
  const int32_t* start = x.start;
  int64_t left;
  if constexpr (minimums) {
    OORT_RUN_PANELS(OORT_ZERO, OORT_TOTAL_MINIMUM, 64, 320, 352);
  } else {
    OORT_RUN_PANELS(OORT_START, OORT_TOTAL, 32, 288, 320);
  }
}

#undef OORT_DOT
#undef OORT_DOTS
#undef OORT_LOWS
#undef OORT_HIGHS
#undef OORT_LOAD
#undef OORT_LINE
#undef OORT_TOTAL
#undef OORT_TOTAL_MINIMUM
#undef OORT_NOTHING
#undef OORT_NUMBERS
#undef OORT_ZERO
#undef OORT_START
#undef OORT_AHEAD
#undef OORT_LOWS_TO
#undef OORT_NEXT_GROUP
#undef OORT_GROUP
#undef OORT_FINE_GROUP
#undef OORT_TWO
#undef OORT_FINE_LINE
#undef OORT_EITHER
#undef OORT_AWAY
#undef OORT_LAST
#undef OORT_PANELS
#undef OORT_RUN_PANELS

}  // namespace oort::OORT_ISA
