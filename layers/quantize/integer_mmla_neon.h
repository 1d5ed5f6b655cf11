// SPDX-License-Identifier: MIT
// Integer kernels for NEON with i8mm: USMMLA multiplies eight neighbours of two outputs, u8, with
// eight of two channels, s8, to 2 x 2 sums. Only for integer.mmla.cpp.
#pragma once

#include "layers/quantize/integer_panels_neon.h"

namespace oort::OORT_ISA {
namespace {

struct MmlaUnit {
  static constexpr bool kSigned = false;
  static constexpr int kGroup = 8;  ///< neighbours of a channel that lie together among weights

  static int32x4_t MultiplyAdd(int32x4_t sums, uint8x16_t taps, uint8x16_t weights) {
    return vusdotq_s32(sums, taps, vreinterpretq_s8_u8(weights));
  }

  template <int rows, int vectors>
  [[gnu::always_inline]] static void Sums(const PanelTile& tile, int32x4_t (&sums)[rows][vectors]) {
    constexpr int kPairs = rows / 2, kColumns = 2 * vectors;
    int32x4_t squares[kPairs * kColumns];
    if constexpr (OORT_HAS_ASSEMBLY && kPairs == kPanelPairs && vectors == kPanelVectors) {
      WholeSquares(tile, squares);
    } else {
      Squares<kPairs, kColumns>(tile, squares);
    }
    Unroll<kPairs>([&](auto p) OORT_INLINED {
      Unroll<vectors>([&](auto v) OORT_INLINED {
        const int64x2_t left = vreinterpretq_s64_s32(squares[p * kColumns + 2 * v]);
        const int64x2_t right = vreinterpretq_s64_s32(squares[p * kColumns + 2 * v + 1]);
        sums[2 * p][v] = vreinterpretq_s32_s64(vzip1q_s64(left, right));
        sums[2 * p + 1][v] = vreinterpretq_s32_s64(vzip2q_s64(left, right));
      });
    });
  }

 private:
  /// [pair of outputs][pair of channels], each 2 x 2.
  template <int pairs, int columns>
  [[gnu::always_inline]] static void Squares(const PanelTile& tile,
                                             int32x4_t (&squares)[pairs * columns]) {
    Unroll<columns>([&](auto c) OORT_INLINED {
      const int32x2_t two = vld1_s32(tile.starts + 2 * c);
      Unroll<pairs>([&](auto p)
                        OORT_INLINED { squares[p * columns + c] = vcombine_s32(two, two); });
    });
    const auto* x = reinterpret_cast<const uint8_t*>(tile.outputs);
    const auto* w = static_cast<const int8_t*>(tile.weights);
    for (int64_t k = 0; k < tile.steps; ++k, x += 16 * pairs, w += 16 * columns) {
      uint8x16_t outputs[pairs];
      Unroll<pairs>([&](auto p) OORT_INLINED { outputs[p] = vld1q_u8(x + 16 * p); });
      Unroll<columns>([&](auto c) OORT_INLINED {
        const int8x16_t channels = vld1q_s8(w + 16 * c);
        Unroll<pairs>([&](auto p) OORT_INLINED {
          int32x4_t& square = squares[p * columns + c];
          square = vusmmlaq_s32(square, outputs[p], channels);
        });
      });
    }
  }

#if OORT_HAS_ASSEMBLY
  // GCC 12 keeps the sums of a whole tile on the stack, so its loop is in assembly: 24 results %0
  // to %23 and the tile, %24. v0 to v2 hold pairs of outputs, v3 to v6 pairs of channels.
  // clang-format off
#define OORT_BYTES_START(s0, s1, s2) \
  "ld1r {%" #s0 ".2d}, [x12], #8\n mov %" #s1 ".16b, %" #s0 ".16b\n mov %" #s2 ".16b, %" #s0 ".16b\n"
#define OORT_BYTES_COLUMN(w, s0, s1, s2)               \
  "usmmla %" #s0 ".4s, v0.16b, v" #w ".16b\n"          \
  "usmmla %" #s1 ".4s, v1.16b, v" #w ".16b\n"          \
  "usmmla %" #s2 ".4s, v2.16b, v" #w ".16b\n"
  [[gnu::always_inline]] static void WholeSquares(const PanelTile& tile, int32x4_t (&s)[24]) {
    asm volatile(
        "ldp x9, x10, [%24]\n"
        "ldp x11, x12, [%24, #16]\n"
        OORT_BYTES_START(0, 8, 16) OORT_BYTES_START(1, 9, 17) OORT_BYTES_START(2, 10, 18)
        OORT_BYTES_START(3, 11, 19) OORT_BYTES_START(4, 12, 20) OORT_BYTES_START(5, 13, 21)
        OORT_BYTES_START(6, 14, 22) OORT_BYTES_START(7, 15, 23)
        "cbz x11, 2f\n"
        "1:\n"
        "ldp q0, q1, [x9]\n ldr q2, [x9, #32]\n"
        "ldp q3, q4, [x10]\n ldp q5, q6, [x10, #32]\n"
        OORT_BYTES_COLUMN(3, 0, 8, 16) OORT_BYTES_COLUMN(4, 1, 9, 17)
        "ldp q3, q4, [x10, #64]\n"
        OORT_BYTES_COLUMN(5, 2, 10, 18) OORT_BYTES_COLUMN(6, 3, 11, 19)
        "ldp q5, q6, [x10, #96]\n"
        OORT_BYTES_COLUMN(3, 4, 12, 20) OORT_BYTES_COLUMN(4, 5, 13, 21)
        "add x9, x9, #48\n add x10, x10, #128\n subs x11, x11, #1\n"
        OORT_BYTES_COLUMN(5, 6, 14, 22) OORT_BYTES_COLUMN(6, 7, 15, 23)
        "b.ne 1b\n"
        "2:\n"
        : "=&w"(s[0]), "=&w"(s[1]), "=&w"(s[2]), "=&w"(s[3]), "=&w"(s[4]), "=&w"(s[5]),
          "=&w"(s[6]), "=&w"(s[7]), "=&w"(s[8]), "=&w"(s[9]), "=&w"(s[10]), "=&w"(s[11]),
          "=&w"(s[12]), "=&w"(s[13]), "=&w"(s[14]), "=&w"(s[15]), "=&w"(s[16]), "=&w"(s[17]),
          "=&w"(s[18]), "=&w"(s[19]), "=&w"(s[20]), "=&w"(s[21]), "=&w"(s[22]), "=&w"(s[23])
        : "r"(&tile)
        : "cc", "memory", "x9", "x10", "x11", "x12", "v0", "v1", "v2", "v3", "v4", "v5", "v6");
  }
  // clang-format on
#endif
};

constexpr IntegerKernels kIntegerKernels = NeonKernels<MmlaUnit>();

}  // namespace
}  // namespace oort::OORT_ISA
