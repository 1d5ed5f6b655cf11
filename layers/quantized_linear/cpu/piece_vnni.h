// SPDX-License-Identifier: MIT
// Pieces of weights of 4 to 8 bits times bytes by VPDPBUSD, all 16 rows of weights in a register.
// The first factor of VPDPBUSD is unsigned, so 128 is added to weights of 8 bits (kOffset8). Only
// for quantized_gemv.dot.cpp.
#pragma once

#include <immintrin.h>

#include "cpu/unroll.h"
#include "layers/quantized_linear/cpu/quantized_kernels.h"

namespace oort::OORT_ISA {

inline constexpr int kMostRows = 8;

/// (bits >> shift & mask) | rest
template <int shift>
[[gnu::always_inline]] inline __m512i WithBits(__m512i bits, char mask, __m512i rest) {
  constexpr int kMaskedOr = 0xea;  // (a & b) | c
  return _mm512_ternarylogic_epi32(_mm512_srli_epi16(bits, shift), _mm512_set1_epi8(mask), rest,
                                   kMaskedOr);
}

/// The weights of a piece without a sign, four steps in each register.
template <WeightType type, int piece>
[[gnu::always_inline]] inline void TakePiece(const std::byte* lines, __m512i (&w)[piece / 4]) {
  const auto line = [&](int i) __attribute__((always_inline)) {
    return _mm512_loadu_si512(lines + 64 * i);
  };
  if constexpr (type == WeightType::kInt4) {
    const __m512i mask = _mm512_set1_epi8(15);
    Unroll<piece / 8>([&](auto i) {
      const __m512i both = line(i);
      w[2 * i] = _mm512_and_si512(both, mask);
      w[2 * i + 1] = _mm512_and_si512(_mm512_srli_epi16(both, 4), mask);
    });
  } else if constexpr (type == WeightType::kInt8) {
    const __m512i turn = _mm512_set1_epi8(static_cast<char>(0x80));
    Unroll<piece / 4>([&](auto i) { w[i] = _mm512_xor_si512(line(i), turn); });
  } else {
    // See byte_lines.h.
    constexpr bool kFive = type == WeightType::kInt5;
    constexpr int kLines = kFive ? 5 : 3;
    static_assert(piece == (kFive ? 32 : 16));
    const __m512i none = _mm512_setzero_si512();
    __m512i all[kLines];
    Unroll<kLines>([&](auto i) {
      all[i] = line(i);
      w[i] = _mm512_and_si512(all[i], _mm512_set1_epi8(kFive ? 31 : 63));
    });
    if constexpr (kFive) {
      w[5] = WithBits<3>(all[0], 0x1c, WithBits<6>(all[1], 3, none));
      w[6] = WithBits<3>(all[2], 0x1c, WithBits<6>(all[3], 3, none));
      w[7] = WithBits<3>(all[4], 0x1c, WithBits<4>(all[1], 2, WithBits<5>(all[3], 1, none)));
    } else {
      w[3] = WithBits<2>(all[0], 0x30, WithBits<4>(all[1], 0x0c, WithBits<6>(all[2], 3, none)));
    }
  }
}

struct [[gnu::packed, gnu::may_alias]] ByteFour {
  int32_t bytes;
};

/// VPDPBUSD repeats four bytes of memory in all lanes by itself, which GCC 12 does not know.
[[gnu::always_inline]] inline __m512i AddFour(__m512i sum, __m512i w, const ByteFour& four) {
  asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(w), "m"(four));
  return sum;
}

/// sums += the products of a piece with the bytes of each row. Of several rows each has its turn
/// before any has the next one, because a product waits five cycles for the one before it in the
/// same sum: for eight rows this took two thirds of the time.
template <int fours, int rows>
[[gnu::always_inline]] inline void AddBytes(const __m512i (&w)[fours], const int8_t* bytes,
                                            __m512i (&sums)[rows]) {
  const ByteFour* four = reinterpret_cast<const ByteFour*>(bytes);
  // Without the attribute GCC calls the lambdas in files with many kernels, with sums in memory.
  const auto add = [&](auto i, auto r) __attribute__((always_inline)) {
    sums[r] = AddFour(sums[r], w[i], four[r * fours + i]);
  };
  if constexpr (rows < 4) {
    Unroll<rows>([&](auto r) __attribute__((always_inline)) {
      Unroll<fours>([&](auto i) __attribute__((always_inline)) { add(i, r); });
    });
  } else {
    Unroll<fours>([&](auto i) __attribute__((always_inline)) {
      Unroll<rows>([&](auto r) __attribute__((always_inline)) { add(i, r); });
    });
  }
}

inline __m512i BothBytes(__m512i first, __m512i fine) {
  return _mm512_add_epi32(fine, _mm512_mullo_epi32(first, _mm512_set1_epi32(kFineSteps)));
}

}  // namespace oort::OORT_ISA
