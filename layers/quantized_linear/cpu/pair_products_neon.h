// SPDX-License-Identifier: MIT
// What products of pairs of rows have in common. Only for *_pairs.mmla.cpp.
#pragma once

#include <arm_neon.h>

#include "cpu/assembly_neon.h"
#include "cpu/unroll.h"
#include "layers/quantized_linear/cpu/row_pairs.h"

namespace oort::OORT_ISA {

inline constexpr int kPairSteps = 32;  // of a piece, and of a group

/// Bytes of two rows, eight of each by turns.
inline void Interleave(const int8_t* first, const int8_t* second, int8_t (&to)[4][2][8]) {
  Unroll<4>([&](auto i) {
    vst1q_s8(&to[i][0][0], vcombine_s8(vld1_s8(first + 8 * i), vld1_s8(second + 8 * i)));
  });
}

/// The same of 16 steps, the first and third four of both rows, and then the others: so two lines
/// of weights of 4 bits need not be taken apart before they are joined.
inline void InterleaveSixteen(const int8_t* first, const int8_t* second, int8_t (&even)[2][8],
                              int8_t (&odd)[2][8]) {
  const int32x4_t a = vreinterpretq_s32_s8(vld1q_s8(first));
  const int32x4_t b = vreinterpretq_s32_s8(vld1q_s8(second));
  vst1q_s8(&even[0][0], vreinterpretq_s8_s32(vuzp1q_s32(a, b)));
  vst1q_s8(&odd[0][0], vreinterpretq_s8_s32(vuzp2q_s32(a, b)));
}

/// Of two rows by turns.
template <typename T, int count>
void ByTurns(T first, T second, T (&to)[count]) {
  for (int i = 0; i < count; i += 2) {
    to[i] = first;
    to[i + 1] = second;
  }
}

inline uint32x4_t LoadWords(const std::byte* from) {
  return vld1q_u32(reinterpret_cast<const uint32_t*>(from));
}

/// Eight steps of four rows of the weight: of the first two, and of the last two.
struct FourRows {
  uint8x16_t two[2];
};
inline FourRows Zip(uint32x4_t first, uint32x4_t second) {
  return {{vreinterpretq_u8_u32(vzip1q_u32(first, second)),
           vreinterpretq_u8_u32(vzip2q_u32(first, second))}};
}
/// The 32 steps of a group of four rows.
using GroupRows = FourRows[4];

/// Numbers of f16 of four rows, as 2 x 2 sums have them: 0 0 1 1, and 2 2 3 3.
inline float16x8_t FourNumbers(const std::byte* from) {
  // The upper half is what follows; it is not used.
  const uint16x8_t halves = vld1q_u16(reinterpret_cast<const uint16_t*>(from));
  return vreinterpretq_f16_u16(vzip1q_u16(halves, halves));
}

struct FourScales {
  float32x4_t two[2];
  explicit FourScales(const std::byte* from) {
    const float16x8_t all = FourNumbers(from);
    two[0] = vcvt_f32_f16(vget_low_f16(all));
    two[1] = vcvt_high_f32_f16(all);
  }
};

// In assembly, since GCC 12 loads the bytes of all pairs at once, for which there are not enough
// registers.
#define OORT_PAIR_OPERANDS                                                                   \
  [u0] "w"(weights[0].two[0]), [v0] "w"(weights[0].two[1]), [u1] "w"(weights[1].two[0]),     \
      [v1] "w"(weights[1].two[1]), [u2] "w"(weights[2].two[0]), [v2] "w"(weights[2].two[1]), \
      [u3] "w"(weights[3].two[0]), [v3] "w"(weights[3].two[1]), [x] "r"(&x[0][0][0]), "m"(x)
#define OORT_PAIR_STEP(name, i, x)                                                        \
  name " %[a].4s, %[u" #i "].16b, %[" #x "].16b\n" name " %[b].4s, %[v" #i "].16b, %[" #x \
       "]."                                                                               \
       "16b\n"
#define OORT_PAIR_SUMS(name)                                                                  \
  asm("ldr %q[a], %[start]\n ldr %q[b], %[start]\n ldp %q[p], %q[q], [%[x]]\n"                \
      "ldp %q[r], %q[s], [%[x], #32]\n" OORT_PAIR_STEP(name, 0, p) OORT_PAIR_STEP(name, 1, q) \
          OORT_PAIR_STEP(name, 2, r) OORT_PAIR_STEP(name, 3, s)                               \
      : [a] "=&w"(sums[0]), [b] "=&w"(sums[1]), [p] "=&w"(p), [q] "=&w"(q), [r] "=&w"(r),     \
        [s] "=&w"(s)                                                                          \
      : [start] "m"(start), OORT_PAIR_OPERANDS)

inline constexpr int32_t kNoStart[4] = {};
inline constexpr int32_t kZeroSums[4] = {kZeroSum, kZeroSum, kZeroSum, kZeroSum};

/// Sums of 2 x 2 products of a piece, for the first and the last two rows of the weight. They begin
/// at `start`, which is loaded: the units that would copy it have more to do.
template <bool is_signed>
[[gnu::always_inline]] inline void SumProducts(const GroupRows& weights, const int8_t (&x)[4][2][8],
                                               const int32_t (&start)[4], int32x4_t (&sums)[2]) {
#if OORT_HAS_ASSEMBLY
  int8x16_t p, q, r, s;
  if constexpr (is_signed) {
    OORT_PAIR_SUMS("smmla");
  } else {
    OORT_PAIR_SUMS("usmmla");
  }
#else
  sums[0] = sums[1] = vld1q_s32(start);
  Unroll<4>([&](auto i) {
    const int8x16_t bytes = vld1q_s8(&x[i][0][0]);
    Unroll<2>([&](auto j) {
      sums[j] = is_signed ? vmmlaq_s32(sums[j], vreinterpretq_s8_u8(weights[i].two[j]), bytes)
                          : vusmmlaq_s32(sums[j], weights[i].two[j], bytes);
    });
  });
#endif
}

/// Two rows from 2 x 2 sums: of the first and of the second row of x.
struct TwoRowsOf {
  float32x4_t row[2];
  explicit TwoRowsOf(const float32x4_t (&totals)[2])
      : row{vuzp1q_f32(totals[0], totals[1]), vuzp2q_f32(totals[0], totals[1])} {}
};

}  // namespace oort::OORT_ISA
