// SPDX-License-Identifier: MIT
// Dequantizes panels to bf16 in pairs of steps, the order of AMX and AVX512-BF16. A number q in the
// mantissa of a float with the right exponent makes that float 2^n + q, so that one multiply-add
// gives scale * q + minimum. Only for dequantize.simd.cpp.
#pragma once

#include <immintrin.h>

#include "layers/quantized_linear/cpu/quantized_lines.h"

namespace oort::OORT_ISA {

/// Where q stands in a float, and what is beside it.
struct Mantissa {
  int32_t mask;
  int32_t exponent;
  float power;  ///< the float is this plus q
};
inline constexpr Mantissa kNibbleAt16 = {0xf << 16, 0x43000000, 128.0f};
inline constexpr Mantissa kByteAt15 = {0xff << 15, 0x43800000, 256.0f};

/// What a group's numbers become: scale * (power + q) + start.
struct PairNumbers {
  __m512 scale, start;
  PairNumbers() : PairNumbers(_mm512_setzero_ps(), _mm512_setzero_ps()) {}
  PairNumbers(__m512 factor, __m512 begin) : scale(factor), start(begin) {}
  PairNumbers(const Mantissa& at, __m512 factor, __m512 minimum, float zero)
      : scale(factor), start(_mm512_fnmadd_ps(factor, _mm512_set1_ps(at.power + zero), minimum)) {}
};

/// Rounds 16 numbers to bf16 in the upper 16 bits of their lanes, ties away from zero.
inline __m512i RoundedNumbers(__m512i shifted, const Mantissa& at, const PairNumbers& numbers) {
  constexpr int kMaskedOr = 0xea;  // (a & b) | c
  const __m512i bits = _mm512_ternarylogic_epi32(shifted, _mm512_set1_epi32(at.mask),
                                                 _mm512_set1_epi32(at.exponent), kMaskedOr);
  const __m512 value = _mm512_fmadd_ps(_mm512_castsi512_ps(bits), numbers.scale, numbers.start);
  return _mm512_add_epi32(_mm512_castps_si512(value), _mm512_set1_epi32(0x8000));
}

inline void StorePair(__m512i first, __m512i second, uint16_t* to) {
  constexpr int kMaskedOr = 0xea;
  const __m512i upper = _mm512_set1_epi32(static_cast<int32_t>(0xffff0000u));
  _mm512_storeu_si512(
      to, _mm512_ternarylogic_epi32(second, upper, _mm512_srli_epi32(first, 16), kMaskedOr));
}

/// Eight steps of 16 rows: byte j of a row has step j in its low half and step 4 + j in the other.
inline void UnpackLowNibbles(const std::byte* line, const PairNumbers& numbers, uint16_t* to,
                             int64_t step) {
  const __m512i w = _mm512_loadu_si512(line);
  const auto rounded = [&](__m512i shifted) {
    return RoundedNumbers(shifted, kNibbleAt16, numbers);
  };
  StorePair(rounded(_mm512_slli_epi32(w, 16)), rounded(_mm512_slli_epi32(w, 8)), to);
  StorePair(rounded(w), rounded(_mm512_srli_epi32(w, 8)), to + step);
}
inline void UnpackHighNibbles(const std::byte* line, const PairNumbers& numbers, uint16_t* to,
                              int64_t step) {
  const __m512i w = _mm512_loadu_si512(line);
  const auto rounded = [&](__m512i shifted) {
    return RoundedNumbers(shifted, kNibbleAt16, numbers);
  };
  StorePair(rounded(_mm512_slli_epi32(w, 12)), rounded(_mm512_slli_epi32(w, 4)), to);
  StorePair(rounded(_mm512_srli_epi32(w, 4)), rounded(_mm512_srli_epi32(w, 12)), to + step);
}
inline void UnpackNibbleLine(const std::byte* line, const PairNumbers& numbers, uint16_t* to,
                             int64_t step) {
  UnpackLowNibbles(line, numbers, to, step);
  UnpackHighNibbles(line, numbers, to + 2 * step, step);
}

/// Four steps of 16 rows.
inline __m512i MovedBytes(const std::byte* line) {
  return _mm512_xor_si512(_mm512_loadu_si512(line), _mm512_set1_epi8(-128));
}
inline void UnpackFirstBytes(const std::byte* line, const PairNumbers& numbers, uint16_t* to) {
  const __m512i w = MovedBytes(line);
  StorePair(RoundedNumbers(_mm512_slli_epi32(w, 15), kByteAt15, numbers),
            RoundedNumbers(_mm512_slli_epi32(w, 7), kByteAt15, numbers), to);
}
inline void UnpackLastBytes(const std::byte* line, const PairNumbers& numbers, uint16_t* to) {
  const __m512i w = MovedBytes(line);
  StorePair(RoundedNumbers(_mm512_srli_epi32(w, 1), kByteAt15, numbers),
            RoundedNumbers(_mm512_srli_epi32(w, 9), kByteAt15, numbers), to);
}
inline void UnpackByteLine(const std::byte* line, const PairNumbers& numbers, uint16_t* to,
                           int64_t step) {
  UnpackFirstBytes(line, numbers, to);
  UnpackLastBytes(line, numbers, to + step);
}

template <WeightType type>
void UnpackPairsQuantized(const PanelLayout& layout, const std::byte* panel, int64_t k0, int64_t k1,
                          const Bf16Target& to) {
  const float zero = static_cast<float>(layout.zero);
  uint16_t* out = to.blocks[0];
  ForGroups(layout, k0, k1, [&](int64_t index, int64_t begin, int64_t end) {
    const GroupPlace group(layout, panel, index);
    const GroupNumbers of(layout, group, 0);
    const GroupLines<type> lines(group.lines);
    if constexpr (type == WeightType::kInt4) {
      const PairNumbers numbers(kNibbleAt16, of.scale.v, of.minimum.v, zero);
      for (int64_t k = begin; k < end; k += 8, out += 4 * to.step) {
        UnpackNibbleLine(lines.data() + k / 8 * 64, numbers, out, to.step);
      }
    } else {
      const PairNumbers numbers(kByteAt15, of.scale.v, of.minimum.v, zero + 128.0f);
      for (int64_t k = begin; k < end; k += 4, out += 2 * to.step) {
        UnpackByteLine(lines.data() + k / 4 * 64, numbers, out, to.step);
      }
    }
  });
}

}  // namespace oort::OORT_ISA
