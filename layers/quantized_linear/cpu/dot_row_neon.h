// SPDX-License-Identifier: MIT
// One row of bytes times a panel of 4 or 8 bits in groups of 32 with f16 scales: what a language
// model does all day. In assembly, so that the floating-point work of one group stands between the
// byte products of the next, which the processor alone does not look far enough ahead for. The sums
// are those of DotRows, bit by bit. Only for quantized_gemv.dot.cpp.
#pragma once

#include <arm_neon.h>

#include "layers/quantized_linear/cpu/dot_row.h"
#include "layers/quantized_linear/cpu/quantized_kernels.h"

namespace oort::OORT_ISA {

// v0 to v3: totals; v4 to v7 and v8 to v11: byte sums of a group and of the one before; v16, v17:
// x; v18, v19: scale and offset of x; v20 to v27: weights; v28, v29: scales and minimums; v31:
// mask. `ahead` is what will be multiplied a little later.
#define OORT_DOTS(a0, a1, a2, a3, w0, w1, w2, w3, x, lane) \
  "sdot v" #a0 ".4s, v" #w0 ".16b, v" #x ".4b[" #lane      \
  "]\n"                                                    \
  "sdot v" #a1 ".4s, v" #w1 ".16b, v" #x ".4b[" #lane      \
  "]\n"                                                    \
  "sdot v" #a2 ".4s, v" #w2 ".16b, v" #x ".4b[" #lane      \
  "]\n"                                                    \
  "sdot v" #a3 ".4s, v" #w3 ".16b, v" #x ".4b[" #lane "]\n"
// clang-format off
#define OORT_UNPACK                                                 \
  "and v24.16b, v20.16b, v31.16b\n and v25.16b, v21.16b, v31.16b\n" \
  "and v26.16b, v22.16b, v31.16b\n and v27.16b, v23.16b, v31.16b\n" \
  "ushr v20.16b, v20.16b, #4\n ushr v21.16b, v21.16b, #4\n"         \
  "ushr v22.16b, v22.16b, #4\n ushr v23.16b, v23.16b, #4\n"
// One line of weights, and the load of the next.
#define OORT_LINE(a0, a1, a2, a3, x, low, high, next, then)                          \
  OORT_UNPACK OORT_DOTS(a0, a1, a2, a3, 24, 25, 26, 27, x, low)                      \
  OORT_DOTS(a0, a1, a2, a3, 20, 21, 22, 23, x, high)                                 \
  "ldp q20, q21, [%[lines], #" #next "]\n ldp q22, q23, [%[lines], #" #then "]\n"
// clang-format on
// Four totals get what their byte sums come to.
#define OORT_TOTAL(total, sum, scales, minimums)                                           \
  "ldr d28, [%[head], #" #scales "]\n scvtf v" #sum ".4s, v" #sum                          \
  ".4s\n fcvtl v28.4s, v28.4h\n fmul v" #sum ".4s, v" #sum ".4s, v18.s[0]\n fmla v" #total \
  ".4s, v" #sum ".4s, v28.4s\n"
#define OORT_TOTAL_MINIMUM(total, sum, scales, minimums)                                        \
  "ldr d28, [%[head], #" #scales "]\n ldr d29, [%[head], #" #minimums "]\n scvtf v" #sum        \
  ".4s, v" #sum ".4s\n fcvtl v28.4s, v28.4h\n fcvtl v29.4s, v29.4h\n fmul v" #sum ".4s, v" #sum \
  ".4s, v18.s[0]\n fmla v" #total ".4s, v29.4s, v19.s[0]\n fmla v" #total ".4s, v" #sum         \
  ".4s, v28.4s\n"
#define OORT_NOTHING(total, sum, scales, minimums)
#define OORT_SCALE "ldr s18, [%[scale]], #4\n"
#define OORT_SCALE_MINIMUM OORT_SCALE "ldr s19, [%[offset]], #4\n"
// How the sums of a group begin: at 0, or at -zero times the sum of x.
#define OORT_START_MINIMUM(a0, a1, a2, a3) \
  "movi v" #a0 ".4s, #0\n movi v" #a1 ".4s, #0\n movi v" #a2 ".4s, #0\n movi v" #a3 ".4s, #0\n"
#define OORT_START(a0, a1, a2, a3)                                                    \
  "ldr w12, [%[sum]], #4\n mul w12, w12, %w[zero]\n dup v" #a0 ".4s, w12\n mov v" #a1 \
  ".16b, v" #a0 ".16b\n mov v" #a2 ".16b, v" #a0 ".16b\n mov v" #a3 ".16b, v" #a0 ".16b\n"
// To the third cache: it is asked for more lines at a time than the second one, and from there on
// the processor reads ahead by itself.
#define OORT_AHEAD(from) "prfm pldl3keep, [%[ahead], #" #from "]\n"
// clang-format off
// A group of `bytes`, of which `head_bytes` are scales and minimums.
#define OORT_GROUP(start, finish, head_bytes, bytes, then, a0, a1, a2, a3, b0, b1, b2, b3)  \
  "ldp q16, q17, [%[q]], #32\n add %[fine], %[fine], #32\n"                                 \
  start(a0, a1, a2, a3) OORT_AHEAD(0) OORT_AHEAD(64)                                        \
  OORT_LINE(a0, a1, a2, a3, 16, 0, 1, 64, 96) finish(0, b0, 0, 32) OORT_AHEAD(128)          \
  OORT_LINE(a0, a1, a2, a3, 16, 2, 3, 128, 160) finish(1, b1, 8, 40) OORT_AHEAD(192)        \
  OORT_LINE(a0, a1, a2, a3, 17, 0, 1, 192, 224) finish(2, b2, 16, 48) OORT_AHEAD(256)       \
  OORT_LINE(a0, a1, a2, a3, 17, 2, 3, bytes, then) finish(3, b3, 24, 56)                    \
  OORT_NEXT_GROUP(head_bytes, bytes)
#define OORT_NEXT_GROUP(head_bytes, bytes)                                  \
  "sub %[head], %[lines], #" #head_bytes "\n add %[lines], %[lines], #" #bytes \
  "\n add %[ahead], %[ahead], #" #bytes "\n"
// A group of which x has two bytes, the second ones in v12 and v13: their sums take the place of
// those of the group before, which is finished first. v14: steps.
#define OORT_FINE_GROUP(start, finish, head_bytes, bytes, then, a0, a1, a2, a3, b0, b1, b2, b3) \
  "ldp q16, q17, [%[q]], #32\n ldp q12, q13, [%[fine]], #32\n"                                  \
  OORT_LAST(finish, b0, b1, b2, b3) OORT_START_MINIMUM(a0, a1, a2, a3) start(b0, b1, b2, b3)    \
  OORT_AHEAD(0) OORT_AHEAD(64) OORT_AHEAD(128) OORT_AHEAD(192) OORT_AHEAD(256)                  \
  OORT_FINE_LINE(a0, a1, a2, a3, b0, b1, b2, b3, 16, 12, 0, 1, 64, 96)                          \
  OORT_FINE_LINE(a0, a1, a2, a3, b0, b1, b2, b3, 16, 12, 2, 3, 128, 160)                        \
  OORT_FINE_LINE(a0, a1, a2, a3, b0, b1, b2, b3, 17, 13, 0, 1, 192, 224)                        \
  OORT_FINE_LINE(a0, a1, a2, a3, b0, b1, b2, b3, 17, 13, 2, 3, bytes, then)                     \
  OORT_TWO(a0, b0) OORT_TWO(a1, b1) OORT_TWO(a2, b2) OORT_TWO(a3, b3)                           \
  OORT_NEXT_GROUP(head_bytes, bytes)
#define OORT_TWO(a, b) \
  "mul v" #a ".4s, v" #a ".4s, v14.4s\n add v" #a ".4s, v" #a ".4s, v" #b ".4s\n"
#define OORT_FINE_LINE(a0, a1, a2, a3, b0, b1, b2, b3, x, y, low, high, next, then)       \
  OORT_UNPACK                                                                             \
  OORT_DOTS(a0, a1, a2, a3, 24, 25, 26, 27, x, low)                                       \
  OORT_DOTS(b0, b1, b2, b3, 24, 25, 26, 27, y, low)                                       \
  OORT_DOTS(a0, a1, a2, a3, 20, 21, 22, 23, x, high)                                      \
  OORT_DOTS(b0, b1, b2, b3, 20, 21, 22, 23, y, high)                                      \
  "ldp q20, q21, [%[lines], #" #next "]\n ldp q22, q23, [%[lines], #" #then "]\n"
// One of both: the rarer stands behind the rest, at label `away`, and comes back to `back`.
#define OORT_EITHER(away, back, ...)                                              \
  "ldrb w13, [%[is_fine]], #1\n cbnz w13, " #away "f\n" OORT_GROUP(__VA_ARGS__) #back ":\n"
#define OORT_AWAY(away, back, ...) #away ":\n" OORT_FINE_GROUP(__VA_ARGS__) "b " #back "b\n"
#define OORT_LAST(finish, b0, b1, b2, b3) \
  finish(0, b0, 0, 32) finish(1, b1, 8, 40) finish(2, b2, 16, 48) finish(3, b3, 24, 56)
#define OORT_PANEL(scales, start, finish, head_bytes, bytes, then)                               \
  "movi v0.4s, #0\n movi v1.4s, #0\n movi v2.4s, #0\n movi v3.4s, #0\n movi v31.16b, #15\n"      \
  "dup v14.4s, %w[steps]\n ldp q20, q21, [%[lines]]\n ldp q22, q23, [%[lines], #32]\n"           \
  OORT_EITHER(5, 8, start, OORT_NOTHING, head_bytes, bytes, then, 4, 5, 6, 7, 8, 9, 10, 11)      \
  "subs %[groups], %[groups], #1\n b.eq 3f\n1:\n" scales                                         \
  OORT_EITHER(6, 9, start, finish, head_bytes, bytes, then, 8, 9, 10, 11, 4, 5, 6, 7)            \
  "subs %[groups], %[groups], #1\n b.eq 2f\n" scales                                             \
  OORT_EITHER(7, 10, start, finish, head_bytes, bytes, then, 4, 5, 6, 7, 8, 9, 10, 11)           \
  "subs %[groups], %[groups], #1\n b.ne 1b\n3:\n" scales                                         \
  OORT_LAST(finish, 4, 5, 6, 7) "b 4f\n2:\n" scales                                              \
  OORT_LAST(finish, 8, 9, 10, 11) "4:\n stp q0, q1, [%[y]]\n stp q2, q3, [%[y], #32]\n b 11f\n"  \
  OORT_AWAY(5, 8, start, OORT_NOTHING, head_bytes, bytes, then, 4, 5, 6, 7, 8, 9, 10, 11)        \
  OORT_AWAY(6, 9, start, finish, head_bytes, bytes, then, 8, 9, 10, 11, 4, 5, 6, 7)              \
  OORT_AWAY(7, 10, start, finish, head_bytes, bytes, then, 4, 5, 6, 7, 8, 9, 10, 11) "11:\n"
#define OORT_RUN_PANEL(...)                                                                      \
  asm volatile(OORT_PANEL(__VA_ARGS__)                                                           \
               : [lines] "+&r"(lines), [head] "+&r"(head), [ahead] "+&r"(ahead), [q] "+&r"(x.q), \
                 [fine] "+&r"(x.fine), [is_fine] "+&r"(x.is_fine), [scale] "+&r"(x.scale),       \
                 [offset] "+&r"(x.offset), [sum] "+&r"(x.sum), [groups] "+&r"(x.groups)          \
               : [y] "r"(y), [zero] "r"(-zero), [steps] "r"(kFineSteps)                          \
               : "cc", "memory", "x12", "x13", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7",   \
                 "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v16", "v17", "v18", "v19",      \
                 "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v31")
// clang-format on

/// Reads up to 128 bytes behind the panel, and brings as many bytes from `ahead` on nearer.
template <bool minimums>
inline void DotRowInt4(DotRowX x, int zero, const std::byte* panel, const std::byte* ahead,
                       float* y) {
  const std::byte *head = panel, *lines = panel + (minimums ? 64 : 32);
  if constexpr (minimums) {
    OORT_RUN_PANEL(OORT_SCALE_MINIMUM, OORT_START_MINIMUM, OORT_TOTAL_MINIMUM, 64, 320, 352);
  } else {
    OORT_RUN_PANEL(OORT_SCALE, OORT_START, OORT_TOTAL, 32, 288, 320);
  }
}

// Of 8 bits, with two bytes of x: v4 to v7: sums of the first bytes; v8 to v11 and v12 to v15: of
// the second ones, then of both, of a group and of the one before; v16, v17 and v24, v25: x; v30:
// steps.
#define OORT_BYTES(l0, l1, l2, l3, first, second, lane, next, then) \
  OORT_DOTS(4, 5, 6, 7, 20, 21, 22, 23, first, lane)                \
  OORT_DOTS(l0, l1, l2, l3, 20, 21, 22, 23, second, lane)           \
  "ldp q20, q21, [%[lines], #" #next "]\n ldp q22, q23, [%[lines], #" #then "]\n"
#define OORT_BOTH(sum, first) "mla v" #sum ".4s, v" #first ".4s, v30.4s\n"
// clang-format off
#define OORT_BYTE_GROUP(finish, l0, l1, l2, l3, b0, b1, b2, b3)                        \
  "ldp q16, q17, [%[q]], #32\n ldp q24, q25, [%[fine]], #32\n"                         \
  OORT_START_MINIMUM(4, 5, 6, 7) OORT_START_MINIMUM(l0, l1, l2, l3)                    \
  OORT_AHEAD(0) OORT_AHEAD(64)                                                         \
  OORT_BYTES(l0, l1, l2, l3, 16, 24, 0, 64, 96) finish(0, b0, 0, 0) OORT_AHEAD(128)    \
  OORT_BYTES(l0, l1, l2, l3, 16, 24, 1, 128, 160) finish(1, b1, 8, 0) OORT_AHEAD(192)  \
  OORT_BYTES(l0, l1, l2, l3, 16, 24, 2, 192, 224) finish(2, b2, 16, 0) OORT_AHEAD(256) \
  OORT_BYTES(l0, l1, l2, l3, 16, 24, 3, 256, 288) finish(3, b3, 24, 0) OORT_AHEAD(320) \
  OORT_BYTES(l0, l1, l2, l3, 17, 25, 0, 320, 352) OORT_AHEAD(384)                      \
  OORT_BYTES(l0, l1, l2, l3, 17, 25, 1, 384, 416) OORT_AHEAD(448)                      \
  OORT_BYTES(l0, l1, l2, l3, 17, 25, 2, 448, 480) OORT_AHEAD(512)                      \
  OORT_BYTES(l0, l1, l2, l3, 17, 25, 3, 544, 576)                                      \
  OORT_BOTH(l0, 4) OORT_BOTH(l1, 5) OORT_BOTH(l2, 6) OORT_BOTH(l3, 7)                  \
  OORT_NEXT_GROUP(32, 544)
// clang-format on

inline void DotRowInt8(DotRowX x, const std::byte* panel, const std::byte* ahead, float* y) {
  const std::byte *head = panel, *lines = panel + 32;
  // clang-format off
  asm volatile(
      "movi v0.4s, #0\n movi v1.4s, #0\n movi v2.4s, #0\n movi v3.4s, #0\n"
      "dup v30.4s, %w[steps]\n ldp q20, q21, [%[lines]]\n ldp q22, q23, [%[lines], #32]\n"
      OORT_BYTE_GROUP(OORT_NOTHING, 8, 9, 10, 11, 12, 13, 14, 15)
      "subs %[groups], %[groups], #1\n b.eq 3f\n"
      "1:\n" OORT_SCALE
      OORT_BYTE_GROUP(OORT_TOTAL, 12, 13, 14, 15, 8, 9, 10, 11)
      "subs %[groups], %[groups], #1\n b.eq 2f\n" OORT_SCALE
      OORT_BYTE_GROUP(OORT_TOTAL, 8, 9, 10, 11, 12, 13, 14, 15)
      "subs %[groups], %[groups], #1\n b.ne 1b\n"
      "3:\n" OORT_SCALE OORT_LAST(OORT_TOTAL, 8, 9, 10, 11) "b 4f\n"
      "2:\n" OORT_SCALE OORT_LAST(OORT_TOTAL, 12, 13, 14, 15)
      "4:\n stp q0, q1, [%[y]]\n stp q2, q3, [%[y], #32]\n"
      : [lines] "+&r"(lines), [head] "+&r"(head), [ahead] "+&r"(ahead), [q] "+&r"(x.q),
        [fine] "+&r"(x.fine), [scale] "+&r"(x.scale), [groups] "+&r"(x.groups)
      : [y] "r"(y), [steps] "r"(kFineSteps)
      : "cc", "memory", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11",
        "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v20", "v21", "v22", "v23", "v24", "v25",
        "v28", "v30");
  // clang-format on
}

#undef OORT_DOTS
#undef OORT_LINE
#undef OORT_TOTAL
#undef OORT_TOTAL_MINIMUM
#undef OORT_NOTHING
#undef OORT_SCALE
#undef OORT_SCALE_MINIMUM
#undef OORT_START
#undef OORT_START_MINIMUM
#undef OORT_AHEAD
#undef OORT_GROUP
#undef OORT_NEXT_GROUP
#undef OORT_FINE_GROUP
#undef OORT_TWO
#undef OORT_FINE_LINE
#undef OORT_UNPACK
#undef OORT_EITHER
#undef OORT_AWAY
#undef OORT_LAST
#undef OORT_PANEL
#undef OORT_RUN_PANEL
#undef OORT_BYTES
#undef OORT_BOTH
#undef OORT_BYTE_GROUP

}  // namespace oort::OORT_ISA
