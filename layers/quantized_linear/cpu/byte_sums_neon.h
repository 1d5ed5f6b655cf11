// SPDX-License-Identifier: MIT
// Sums of byte products by SDOT, four rows of weights in a register. Only for
// quantized_gemv.dot.cpp.
#pragma once

#include "cpu/assembly_neon.h"
#include "cpu/unroll.h"
#include "cpu/vec.h"
#include "layers/quantized_linear/cpu/quantized_kernels.h"

namespace oort::OORT_ISA {

inline constexpr int kMostRows = 4;
inline constexpr bool kWide = false;

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

#if OORT_HAS_ASSEMBLY
// Pieces of 32 steps are in assembly: GCC 12 keeps the sums of several rows on the stack. Rows of x
// are x, y, z, t, each in two registers (0 and 1), their sums a, b, c, d, four registers each: the
// compiler chooses these, and v28 to v31 hold weights.
// clang-format off
#define OORT_PIECE_DOT(sum, i, weights, x, half, lane) \
  OORT_ASM_DOT_OF(sdot, OORT_ASM_OPERAND(sum##i), OORT_ASM_V(weights), OORT_ASM_OPERAND(x##half), lane)
#define OORT_PIECE_ROWS_1(i, weights, half, lane) OORT_PIECE_DOT(a, i, weights, x, half, lane)
#define OORT_PIECE_ROWS_2(i, weights, half, lane) \
  OORT_PIECE_ROWS_1(i, weights, half, lane) OORT_PIECE_DOT(b, i, weights, y, half, lane)
#define OORT_PIECE_ROWS_4(i, weights, half, lane) \
  OORT_PIECE_ROWS_2(i, weights, half, lane)       \
  OORT_PIECE_DOT(c, i, weights, z, half, lane) OORT_PIECE_DOT(d, i, weights, t, half, lane)
// Of 4 bits: half a line, of 8 steps; then all lines of a piece.
#define OORT_PIECE_LOW(to, from) "and " OORT_ASM_V(to) ".16b, " OORT_ASM_V(from) ".16b, %[mask].16b\n"
#define OORT_PIECE_HALF_LINE_4(rows, offset, i, j, half, low, high)                               \
  OORT_ASM_LOAD2(28, 29, lines, offset) OORT_PIECE_LOW(30, 28) OORT_PIECE_LOW(31, 29)             \
  OORT_ASM_SHIFT_RIGHT(16b, 28, 28, 4) OORT_ASM_SHIFT_RIGHT(16b, 29, 29, 4)                       \
  rows(i, 30, half, low) rows(j, 31, half, low) rows(i, 28, half, high) rows(j, 29, half, high)
#define OORT_PIECE_LINE_4(rows, first, second, half, low, high)                                   \
  OORT_PIECE_HALF_LINE_4(rows, first, 0, 1, half, low, high)                                      \
  OORT_PIECE_HALF_LINE_4(rows, second, 2, 3, half, low, high)
#define OORT_PIECE_4(rows)                                                                        \
  OORT_PIECE_LINE_4(rows, 0, 32, 0, 0, 1) OORT_PIECE_LINE_4(rows, 64, 96, 0, 2, 3)                \
  OORT_PIECE_LINE_4(rows, 128, 160, 1, 0, 1) OORT_PIECE_LINE_4(rows, 192, 224, 1, 2, 3)
// Of 8 bits: a line, of 4 steps; then all lines of a piece.
#define OORT_PIECE_LINE_8(rows, first, second, half, lane)                                        \
  OORT_ASM_LOAD2(28, 29, lines, first) OORT_ASM_LOAD2(30, 31, lines, second)                      \
  rows(0, 28, half, lane) rows(1, 29, half, lane) rows(2, 30, half, lane) rows(3, 31, half, lane)
#define OORT_PIECE_8(rows)                                                                        \
  OORT_PIECE_LINE_8(rows, 0, 32, 0, 0) OORT_PIECE_LINE_8(rows, 64, 96, 0, 1)                      \
  OORT_PIECE_LINE_8(rows, 128, 160, 0, 2) OORT_PIECE_LINE_8(rows, 192, 224, 0, 3)                 \
  OORT_PIECE_LINE_8(rows, 256, 288, 1, 0) OORT_PIECE_LINE_8(rows, 320, 352, 1, 1)                 \
  OORT_PIECE_LINE_8(rows, 384, 416, 1, 2) OORT_PIECE_LINE_8(rows, 448, 480, 1, 3)
// Operands. Of four rows the sums start inside: GCC takes no more than 30 operands, and one that is
// read and written counts twice. (Four rows as two pairs would read the weights twice.)
#define OORT_PIECE_SUMS(name, row)                                                                \
  [name##0] "+w"(sums[row].v[0]), [name##1] "+w"(sums[row].v[1]),                                 \
  [name##2] "+w"(sums[row].v[2]), [name##3] "+w"(sums[row].v[3])
#define OORT_PIECE_NEW_SUMS(name, row)                                                            \
  [name##0] "=&w"(sums[row].v[0]), [name##1] "=&w"(sums[row].v[1]),                               \
  [name##2] "=&w"(sums[row].v[2]), [name##3] "=&w"(sums[row].v[3])
#define OORT_PIECE_BYTES(name, row) [name##0] "w"(bytes[row].v[0]), [name##1] "w"(bytes[row].v[1])
#define OORT_PIECE_START(name)                                                                    \
  "ld1r {%[" #name "0].4s}, [%[start]], #4\n mov %[" #name "1].16b, %[" #name "0].16b\n"          \
  "mov %[" #name "2].16b, %[" #name "0].16b\n mov %[" #name "3].16b, %[" #name "0].16b\n"
#define OORT_PIECE_RUN(piece)                                                                     \
  const uint8x16_t mask = vdupq_n_u8(15);                                                         \
  if constexpr (rows == 1) {                                                                      \
    asm(piece(OORT_PIECE_ROWS_1)                                                                  \
        : OORT_PIECE_SUMS(a, 0)                                                                   \
        : OORT_PIECE_BYTES(x, 0), [lines] "r"(lines), [mask] "w"(mask), "m"(*whole)               \
        : "v28", "v29", "v30", "v31");                                                            \
  } else if constexpr (rows == 2) {                                                               \
    asm(piece(OORT_PIECE_ROWS_2)                                                                  \
        : OORT_PIECE_SUMS(a, 0), OORT_PIECE_SUMS(b, 1)                                            \
        : OORT_PIECE_BYTES(x, 0), OORT_PIECE_BYTES(y, 1), [lines] "r"(lines), [mask] "w"(mask),   \
          "m"(*whole)                                                                             \
        : "v28", "v29", "v30", "v31");                                                            \
  } else {                                                                                        \
    static_assert(rows == 4);                                                                     \
    const int32_t starts[4] = {sums[0].start, sums[1].start, sums[2].start, sums[3].start};       \
    const int32_t* start = starts;                                                                \
    asm volatile(OORT_PIECE_START(a) OORT_PIECE_START(b) OORT_PIECE_START(c) OORT_PIECE_START(d)  \
                 piece(OORT_PIECE_ROWS_4)                                                         \
                 : OORT_PIECE_NEW_SUMS(a, 0), OORT_PIECE_NEW_SUMS(b, 1), OORT_PIECE_NEW_SUMS(c, 2), \
                   OORT_PIECE_NEW_SUMS(d, 3), [start] "+&r"(start)                                \
                 : OORT_PIECE_BYTES(x, 0), OORT_PIECE_BYTES(y, 1), OORT_PIECE_BYTES(z, 2),        \
                   OORT_PIECE_BYTES(t, 3), [lines] "r"(lines), [mask] "w"(mask)                   \
                 : "v28", "v29", "v30", "v31", "memory");                                         \
  }
// clang-format on

/// Pieces of 32 steps.
template <WeightType type, int rows>
[[gnu::always_inline]] inline void AddLongPiece(const std::byte* lines,
                                                const Bytes<32> (&bytes)[rows],
                                                ByteSums (&sums)[rows]) {
  if constexpr (type == WeightType::kInt4) {
    [[maybe_unused]] const auto* whole = reinterpret_cast<const std::byte(*)[256]>(lines);
    OORT_PIECE_RUN(OORT_PIECE_4)
  } else {
    [[maybe_unused]] const auto* whole = reinterpret_cast<const std::byte(*)[512]>(lines);
    OORT_PIECE_RUN(OORT_PIECE_8)
  }
}
#else
/// The twin of the assembly: two pieces of 16 steps.
template <WeightType type, int rows>
inline void AddLongPiece(const std::byte* lines, const Bytes<32> (&bytes)[rows],
                         ByteSums (&sums)[rows]) {
  constexpr int kBytes = type == WeightType::kInt4 ? 128 : 256;  // of 16 steps
  Unroll<2>([&](auto half) {
    Bytes<16> part[rows];
    Unroll<rows>([&](auto r) { part[r].v[0] = bytes[r].v[half]; });
    AddShortPiece<type, rows>(lines + half * kBytes, part, sums);
  });
}
#endif

template <WeightType type, int piece, int rows>
[[gnu::always_inline]] inline void AddPiece(const std::byte* lines,
                                            const Bytes<piece> (&bytes)[rows],
                                            ByteSums (&sums)[rows]) {
  if constexpr (piece == 16) {
    AddShortPiece<type, rows>(lines, bytes, sums);
  } else {
    AddLongPiece<type, rows>(lines, bytes, sums);
  }
}

}  // namespace oort::OORT_ISA
