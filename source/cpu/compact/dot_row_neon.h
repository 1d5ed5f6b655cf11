// SPDX-License-Identifier: MIT
// One row of bytes times a panel of 4 bits in groups of 32 with f16 scales and minimums: what a
// language model does all day. In assembly, so that the floating-point work of one group stands
// between the byte products of the next, which the processor alone does not look far enough ahead
// for. The sums are those of DotRows, bit by bit. Only for compact.dot.cpp.
#pragma once

#include <arm_neon.h>

#include "cpu/compact/compact_kernels.h"

namespace oort::OORT_ISA {

// v0 to v3: totals; v4 to v7 and v8 to v11: byte sums of a group and of the one before; v16, v17:
// x; v18, v19: scale and offset of x; v20 to v27: weights; v28, v29: scales and minimums; v31:
// mask.
#define OORT_DOTS(a0, a1, a2, a3, w0, w1, w2, w3, x, lane) \
  "sdot v" #a0 ".4s, v" #w0 ".16b, v" #x ".4b[" #lane      \
  "]\n"                                                    \
  "sdot v" #a1 ".4s, v" #w1 ".16b, v" #x ".4b[" #lane      \
  "]\n"                                                    \
  "sdot v" #a2 ".4s, v" #w2 ".16b, v" #x ".4b[" #lane      \
  "]\n"                                                    \
  "sdot v" #a3 ".4s, v" #w3 ".16b, v" #x ".4b[" #lane "]\n"
// One line of weights, and the load of the next.
#define OORT_LINE(a0, a1, a2, a3, x, low, high, next, then)                                       \
  "and v24.16b, v20.16b, v31.16b\n and v25.16b, v21.16b, v31.16b\n"                               \
  "and v26.16b, v22.16b, v31.16b\n and v27.16b, v23.16b, v31.16b\n"                               \
  "ushr v20.16b, v20.16b, #4\n ushr v21.16b, v21.16b, #4\n"                                       \
  "ushr v22.16b, v22.16b, #4\n ushr v23.16b, v23.16b, #4\n" OORT_DOTS(a0, a1, a2, a3, 24, 25, 26, \
                                                                      27, x, low)                 \
      OORT_DOTS(a0, a1, a2, a3, 20, 21, 22, 23, x, high) "ldp q20, q21, [%[lines], #" #next       \
                                                         "]\n ldp q22, q23, [%[lines], #" #then   \
                                                         "]\n"
// Four totals get what their byte sums come to.
#define OORT_TOTAL(total, sum, scales, minimums)                                                \
  "ldr d28, [%[head], #" #scales "]\n ldr d29, [%[head], #" #minimums "]\n scvtf v" #sum        \
  ".4s, v" #sum ".4s\n fcvtl v28.4s, v28.4h\n fcvtl v29.4s, v29.4h\n fmul v" #sum ".4s, v" #sum \
  ".4s, v18.s[0]\n fmla v" #total ".4s, v29.4s, v19.s[0]\n fmla v" #total ".4s, v" #sum         \
  ".4s, v28.4s\n"
#define OORT_NEXT_SCALES "ldr s18, [%[scale]], #4\n ldr s19, [%[offset]], #4\n"
#define OORT_NOTHING(total, sum, scales, minimums)
#define OORT_GROUP(finish, a0, a1, a2, a3, b0, b1, b2, b3)                          \
  "ldp q16, q17, [%[q]], #32\n"                                                     \
  "movi v" #a0 ".4s, #0\n movi v" #a1 ".4s, #0\n movi v" #a2 ".4s, #0\n movi v" #a3 \
  ".4s, #0\n" OORT_LINE(a0, a1, a2, a3, 16, 0, 1, 64, 96) finish(0, b0, 0, 32)      \
      OORT_LINE(a0, a1, a2, a3, 16, 2, 3, 128, 160) finish(1, b1, 8, 40)            \
          OORT_LINE(a0, a1, a2, a3, 17, 0, 1, 192, 224) finish(2, b2, 16, 48)       \
              OORT_LINE(a0, a1, a2, a3, 17, 2, 3, 320, 352) finish(                 \
                  3, b3, 24, 56) "sub %[head], %[lines], #64\n add %[lines], %[lines], #320\n"
#define OORT_LAST(b0, b1, b2, b3)                                                              \
  OORT_NEXT_SCALES OORT_TOTAL(0, b0, 0, 32) OORT_TOTAL(1, b1, 8, 40) OORT_TOTAL(2, b2, 16, 48) \
      OORT_TOTAL(3, b3, 24, 56)

/// `groups` is at least 1. Reads up to 128 bytes behind the panel.
inline void DotRowInt4(int64_t groups, const std::byte* panel, const int8_t* q, const float* scale,
                       const float* offset, float* y) {
  const std::byte *lines = panel + 64, *head = panel;
  // clang-format off
  asm volatile(
      "movi v0.4s, #0\n movi v1.4s, #0\n movi v2.4s, #0\n movi v3.4s, #0\n movi v31.16b, #15\n"
      "ldp q20, q21, [%[lines]]\n ldp q22, q23, [%[lines], #32]\n"
      OORT_GROUP(OORT_NOTHING, 4, 5, 6, 7, 8, 9, 10, 11)
      "subs %[groups], %[groups], #1\n b.eq 3f\n"
      "1:\n" OORT_NEXT_SCALES
      OORT_GROUP(OORT_TOTAL, 8, 9, 10, 11, 4, 5, 6, 7)
      "subs %[groups], %[groups], #1\n b.eq 2f\n" OORT_NEXT_SCALES
      OORT_GROUP(OORT_TOTAL, 4, 5, 6, 7, 8, 9, 10, 11)
      "subs %[groups], %[groups], #1\n b.ne 1b\n"
      "3:\n" OORT_LAST(4, 5, 6, 7) "b 4f\n"
      "2:\n" OORT_LAST(8, 9, 10, 11)
      "4:\n stp q0, q1, [%[y]]\n stp q2, q3, [%[y], #32]\n"
      : [lines] "+r"(lines), [head] "+r"(head), [q] "+r"(q), [scale] "+r"(scale),
        [offset] "+r"(offset), [groups] "+r"(groups)
      : [y] "r"(y)
      : "cc", "memory", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11",
        "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28",
        "v29", "v31");
  // clang-format on
}

#undef OORT_DOTS
#undef OORT_LINE
#undef OORT_TOTAL
#undef OORT_NEXT_SCALES
#undef OORT_NOTHING
#undef OORT_GROUP
#undef OORT_LAST

}  // namespace oort::OORT_ISA
