// SPDX-License-Identifier: MIT
// Sums of byte products by SDOT, four rows of weights in a register. Only for
// quantized_gemv.dot.cpp.
#pragma once

#include <arm_neon.h>

#include "cpu/unroll.h"
#include "cpu/vec.h"
#include "layers/quantized_linear/cpu/quantized_kernels.h"

namespace oort::OORT_ISA {

inline constexpr int kMostRows = 4;
inline constexpr int kOffset8 = 0;

struct ByteSums {
  int32x4_t v[4];
  int32_t start;
  void Start(int32_t value) {
    start = value;
    Unroll<4>([&](auto i) { v[i] = vdupq_n_s32(value); });
  }
  void ToFloat(float scale, Vec* out) const {
    Unroll<4>([&](auto i) { out[i] = Vec(vmulq_n_f32(vcvtq_f32_s32(v[i]), scale)); });
  }
  void AddFirst(const ByteSums& first) {
    Unroll<4>([&](auto i) { v[i] = vmlaq_n_s32(v[i], first.v[i], kFineSteps); });
  }
  void AddToFloat(float scale, Vec* out) const {
    Unroll<4>([&](auto i) { out[i] = Vec(vfmaq_n_f32(out[i].v, vcvtq_f32_s32(v[i]), scale)); });
  }
};

template <int piece>
struct Bytes {
  int8x16_t v[piece / 16];
  void Load(const int8_t* p) {
    Unroll<piece / 16>([&](auto i) { v[i] = vld1q_s8(p + 16 * i); });
  }
};

// Pieces of 32 steps are in assembly: GCC 12 keeps the sums of several rows on the stack. Rows of x
// are x, y, z, t, each in two registers (0 and 1), their sums a, b, c, d, four registers each.
// v28 to v31: weights.
#define OORT_DOT(sum, weights, bytes, lane) \
  "sdot %[" sum "].4s, " weights ".16b, %[" bytes "].4b[" lane "]\n"
#define OORT_ROWS_1(i, weights, half, lane) OORT_DOT("a" i, weights, "x" half, lane)
#define OORT_ROWS_2(i, weights, half, lane) \
  OORT_ROWS_1(i, weights, half, lane) OORT_DOT("b" i, weights, "y" half, lane)
#define OORT_ROWS_4(i, weights, half, lane) \
  OORT_ROWS_2(i, weights, half, lane)       \
  OORT_DOT("c" i, weights, "z" half, lane) OORT_DOT("d" i, weights, "t" half, lane)
#define OORT_TWO_4(rows, offset, i, j, half, low, high)                               \
  "ldp q28, q29, [%[lines], #" offset                                                 \
  "]\n and v30.16b, v28.16b, %[mask].16b\n and v31.16b, v29.16b, %[mask].16b\n"       \
  "ushr v28.16b, v28.16b, #4\n ushr v29.16b, v29.16b, #4\n" rows(i, "v30", half, low) \
      rows(j, "v31", half, low) rows(i, "v28", half, high) rows(j, "v29", half, high)
#define OORT_LINE_4(rows, first, second, half, low, high) \
  OORT_TWO_4(rows, first, "0", "1", half, low, high)      \
  OORT_TWO_4(rows, second, "2", "3", half, low, high)
#define OORT_PIECE_4(rows)                     \
  OORT_LINE_4(rows, "0", "32", "0", "0", "1")  \
  OORT_LINE_4(rows, "64", "96", "0", "2", "3") \
  OORT_LINE_4(rows, "128", "160", "1", "0", "1") OORT_LINE_4(rows, "192", "224", "1", "2", "3")
#define OORT_LINE_8(rows, first, second, half, lane)                                           \
  "ldp q28, q29, [%[lines], #" first "]\n ldp q30, q31, [%[lines], #" second                   \
  "]\n" rows("0", "v28", half, lane) rows("1", "v29", half, lane) rows("2", "v30", half, lane) \
      rows("3", "v31", half, lane)
#define OORT_PIECE_8(rows)                  \
  OORT_LINE_8(rows, "0", "32", "0", "0")    \
  OORT_LINE_8(rows, "64", "96", "0", "1")   \
  OORT_LINE_8(rows, "128", "160", "0", "2") \
  OORT_LINE_8(rows, "192", "224", "0", "3") \
  OORT_LINE_8(rows, "256", "288", "1", "0") \
  OORT_LINE_8(rows, "320", "352", "1", "1") \
  OORT_LINE_8(rows, "384", "416", "1", "2") OORT_LINE_8(rows, "448", "480", "1", "3")
#define OORT_SUMS(name, row)                                                                      \
  [name##0] "+w"(sums[row].v[0]), [name##1] "+w"(sums[row].v[1]), [name##2] "+w"(sums[row].v[2]), \
      [name##3] "+w"(sums[row].v[3])
#define OORT_BYTES(name, row) [name##0] "w"(bytes[row].v[0]), [name##1] "w"(bytes[row].v[1])

/// Four rows as two pairs would read the weights twice; GCC takes no more than 30 operands, and one
/// that is read and written counts twice: so the sums start inside.
#define OORT_START(name)                                                              \
  "ld1r {%[" name "0].4s}, [%[start]], #4\n mov %[" name "1].16b, %[" name "0].16b\n" \
  "mov %[" name "2].16b, %[" name "0].16b\n mov %[" name "3].16b, %[" name "0].16b\n"
#define OORT_NEW_SUMS(name, row)                                    \
  [name##0] "=&w"(sums[row].v[0]), [name##1] "=&w"(sums[row].v[1]), \
      [name##2] "=&w"(sums[row].v[2]), [name##3] "=&w"(sums[row].v[3])
#define OORT_RUN_PIECE(piece)                                                                   \
  const uint8x16_t mask = vdupq_n_u8(15);                                                       \
  if constexpr (rows == 1) {                                                                    \
    asm(piece(OORT_ROWS_1)                                                                      \
        : OORT_SUMS(a, 0)                                                                       \
        : OORT_BYTES(x, 0), [lines] "r"(lines), [mask] "w"(mask), "m"(*whole)                   \
        : "v28", "v29", "v30", "v31");                                                          \
  } else if constexpr (rows == 2) {                                                             \
    asm(piece(OORT_ROWS_2)                                                                      \
        : OORT_SUMS(a, 0), OORT_SUMS(b, 1)                                                      \
        : OORT_BYTES(x, 0), OORT_BYTES(y, 1), [lines] "r"(lines), [mask] "w"(mask), "m"(*whole) \
        : "v28", "v29", "v30", "v31");                                                          \
  } else {                                                                                      \
    static_assert(rows == 4);                                                                   \
    const int32_t starts[4] = {sums[0].start, sums[1].start, sums[2].start, sums[3].start};     \
    const int32_t* start = starts;                                                              \
    asm volatile(OORT_START("a") OORT_START("b") OORT_START("c") OORT_START("d")                \
                     piece(OORT_ROWS_4)                                                         \
                 : OORT_NEW_SUMS(a, 0), OORT_NEW_SUMS(b, 1), OORT_NEW_SUMS(c, 2),               \
                   OORT_NEW_SUMS(d, 3), [start] "+&r"(start)                                    \
                 : OORT_BYTES(x, 0), OORT_BYTES(y, 1), OORT_BYTES(z, 2),                        \
                   OORT_BYTES(t, 3), [lines] "r"(lines), [mask] "w"(mask)                       \
                 : "v28", "v29", "v30", "v31", "memory");                                       \
  }

/// Pieces of 16 steps.
template <WeightType type, int rows>
inline void AddShortPiece(const std::byte* lines, const Bytes<16> (&bytes)[rows],
                          ByteSums (&sums)[rows]) {
  const uint8_t* from = reinterpret_cast<const uint8_t*>(lines);
  constexpr int kLines = type == WeightType::kInt4 ? 2 : 4;
  Unroll<kLines>([&](auto line) {
    Unroll<4>([&](auto i) {
      const uint8x16_t w = vld1q_u8(from + 64 * line + 16 * i);
      if constexpr (type == WeightType::kInt4) {
        const int8x16_t low = vreinterpretq_s8_u8(vandq_u8(w, vdupq_n_u8(15)));
        const int8x16_t high = vreinterpretq_s8_u8(vshrq_n_u8(w, 4));
        Unroll<rows>([&](auto r) {
          sums[r].v[i] = vdotq_laneq_s32(sums[r].v[i], low, bytes[r].v[0], 2 * line);
          sums[r].v[i] = vdotq_laneq_s32(sums[r].v[i], high, bytes[r].v[0], 2 * line + 1);
        });
      } else {
        Unroll<rows>([&](auto r) {
          sums[r].v[i] = vdotq_laneq_s32(sums[r].v[i], vreinterpretq_s8_u8(w), bytes[r].v[0], line);
        });
      }
    });
  });
}

template <WeightType type, int piece, int rows>
[[gnu::always_inline]] inline void AddPiece(const std::byte* lines,
                                            const Bytes<piece> (&bytes)[rows],
                                            ByteSums (&sums)[rows]) {
  if constexpr (piece == 16) {
    AddShortPiece<type, rows>(lines, bytes, sums);
  } else if constexpr (type == WeightType::kInt4) {
    [[maybe_unused]] const auto* whole = reinterpret_cast<const std::byte(*)[256]>(lines);
    OORT_RUN_PIECE(OORT_PIECE_4)
  } else {
    [[maybe_unused]] const auto* whole = reinterpret_cast<const std::byte(*)[512]>(lines);
    OORT_RUN_PIECE(OORT_PIECE_8)
  }
}

#undef OORT_DOT
#undef OORT_ROWS_1
#undef OORT_ROWS_2
#undef OORT_ROWS_4
#undef OORT_TWO_4
#undef OORT_LINE_4
#undef OORT_PIECE_4
#undef OORT_LINE_8
#undef OORT_PIECE_8
#undef OORT_SUMS
#undef OORT_BYTES
#undef OORT_START
#undef OORT_NEW_SUMS
#undef OORT_RUN_PIECE

}  // namespace oort::OORT_ISA
