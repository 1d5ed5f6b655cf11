// SPDX-License-Identifier: MIT
// Integer kernels for NEON with dotprod: SDOT adds four products of s8 to each of 4 sums. Only for
// integer.dot.cpp.
#pragma once

#include "layers/quantize/integer_panels_neon.h"

namespace oort::OORT_ISA {
namespace {

struct DotUnit {
  static constexpr bool kSigned = true;
  static constexpr int kGroup = 4;  ///< neighbours of a channel that lie together among weights

  static int32x4_t MultiplyAdd(int32x4_t sums, uint8x16_t taps, uint8x16_t weights) {
    return vdotq_s32(sums, vreinterpretq_s8_u8(taps), vreinterpretq_s8_u8(weights));
  }

  template <int rows, int vectors>
  [[gnu::always_inline]] static void Sums(const PanelTile& tile, int32x4_t (&sums)[rows][vectors]) {
    if constexpr (OORT_HAS_ASSEMBLY && rows == 2 * kPanelPairs && vectors == kPanelVectors) {
      WholeSums(tile, sums);
    } else {
      PlainSums(tile, sums);
    }
  }

 private:
  template <int rows, int vectors>
  [[gnu::always_inline]] static void PlainSums(const PanelTile& tile,
                                               int32x4_t (&sums)[rows][vectors]) {
    Unroll<vectors>([&](auto v) OORT_INLINED {
      const int32x4_t start = vld1q_s32(tile.starts + 4 * v);
      Unroll<rows>([&](auto r) OORT_INLINED { sums[r][v] = start; });
    });
    const auto* x = reinterpret_cast<const int8_t*>(tile.outputs);
    const auto* w = static_cast<const int8_t*>(tile.weights);
    for (int64_t k = 0; k < tile.steps; ++k, x += 8 * rows) {
      int8x16_t outputs[rows / 2];
      Unroll<rows / 2>([&](auto p) OORT_INLINED { outputs[p] = vld1q_s8(x + 16 * p); });
      Unroll<2>([&](auto half) OORT_INLINED {
        Unroll<vectors>([&](auto v) OORT_INLINED {
          const int8x16_t channels = vld1q_s8(w + 16 * v);
          Unroll<rows>([&](auto r) OORT_INLINED {
            constexpr int kLane = 2 * (r % 2) + half;
            sums[r][v] = vdotq_laneq_s32(sums[r][v], channels, outputs[r / 2], kLane);
          });
        });
        w += 16 * vectors;
      });
    }
  }

#if OORT_HAS_ASSEMBLY
  // GCC 12 keeps the sums of a whole tile on the stack, so its loop is in assembly: 24 results %0
  // to %23, row by row, and the tile, %24. v0 to v2 hold pairs of outputs, v3 to v6 channels.
  // clang-format off
#define OORT_BYTES_START(s0, s1, s2, s3, s4, s5)                                                 \
  "ldr %q" #s0 ", [x12], #16\n mov %" #s1 ".16b, %" #s0 ".16b\n mov %" #s2 ".16b, %" #s0 ".16b\n" \
  "mov %" #s3 ".16b, %" #s0 ".16b\n mov %" #s4 ".16b, %" #s0 ".16b\n mov %" #s5 ".16b, %" #s0 ".16b\n"
#define OORT_BYTES_VECTOR(w, even, odd, s0, s1, s2, s3, s4, s5)                                  \
  "sdot %" #s0 ".4s, v" #w ".16b, v0.4b[" #even "]\n sdot %" #s1 ".4s, v" #w ".16b, v0.4b[" #odd "]\n" \
  "sdot %" #s2 ".4s, v" #w ".16b, v1.4b[" #even "]\n sdot %" #s3 ".4s, v" #w ".16b, v1.4b[" #odd "]\n" \
  "sdot %" #s4 ".4s, v" #w ".16b, v2.4b[" #even "]\n sdot %" #s5 ".4s, v" #w ".16b, v2.4b[" #odd "]\n"
  [[gnu::always_inline]] static void WholeSums(const PanelTile& tile, int32x4_t (&s)[6][4]) {
    asm volatile(
        "ldp x9, x10, [%24]\n"
        "ldp x11, x12, [%24, #16]\n"
        OORT_BYTES_START(0, 4, 8, 12, 16, 20) OORT_BYTES_START(1, 5, 9, 13, 17, 21)
        OORT_BYTES_START(2, 6, 10, 14, 18, 22) OORT_BYTES_START(3, 7, 11, 15, 19, 23)
        "cbz x11, 2f\n"
        "1:\n"
        "ldp q0, q1, [x9]\n ldr q2, [x9, #32]\n"
        "ldp q3, q4, [x10]\n ldp q5, q6, [x10, #32]\n"
        OORT_BYTES_VECTOR(3, 0, 2, 0, 4, 8, 12, 16, 20) OORT_BYTES_VECTOR(4, 0, 2, 1, 5, 9, 13, 17, 21)
        "ldp q3, q4, [x10, #64]\n"
        OORT_BYTES_VECTOR(5, 0, 2, 2, 6, 10, 14, 18, 22) OORT_BYTES_VECTOR(6, 0, 2, 3, 7, 11, 15, 19, 23)
        "ldp q5, q6, [x10, #96]\n"
        OORT_BYTES_VECTOR(3, 1, 3, 0, 4, 8, 12, 16, 20) OORT_BYTES_VECTOR(4, 1, 3, 1, 5, 9, 13, 17, 21)
        "add x9, x9, #48\n add x10, x10, #128\n subs x11, x11, #1\n"
        OORT_BYTES_VECTOR(5, 1, 3, 2, 6, 10, 14, 18, 22) OORT_BYTES_VECTOR(6, 1, 3, 3, 7, 11, 15, 19, 23)
        "b.ne 1b\n"
        "2:\n"
        : "=&w"(s[0][0]), "=&w"(s[0][1]), "=&w"(s[0][2]), "=&w"(s[0][3]), "=&w"(s[1][0]), "=&w"(s[1][1]),
          "=&w"(s[1][2]), "=&w"(s[1][3]), "=&w"(s[2][0]), "=&w"(s[2][1]), "=&w"(s[2][2]), "=&w"(s[2][3]),
          "=&w"(s[3][0]), "=&w"(s[3][1]), "=&w"(s[3][2]), "=&w"(s[3][3]), "=&w"(s[4][0]), "=&w"(s[4][1]),
          "=&w"(s[4][2]), "=&w"(s[4][3]), "=&w"(s[5][0]), "=&w"(s[5][1]), "=&w"(s[5][2]), "=&w"(s[5][3])
        : "r"(&tile)
        : "cc", "memory", "x9", "x10", "x11", "x12", "v0", "v1", "v2", "v3", "v4", "v5", "v6");
  }
  // clang-format on
#endif
};

constexpr IntegerKernels kIntegerKernels = NeonKernels<DotUnit>();

}  // namespace
}  // namespace oort::OORT_ISA
