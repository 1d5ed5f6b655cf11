// SPDX-License-Identifier: MIT
// Panels of bf16 with pairs of steps of k side by side, on AVX-512. Only for gemm.bf16.cpp.
#pragma once

#include <immintrin.h>

#include "cpu/bf16.h"
#include "cpu/gemm.h"

namespace oort::OORT_ISA {

inline __m512 WidenBf16(__m256i values) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(values), 16));
}

/// Rounded to bf16, ties to even.
inline __m256i RoundVector(__m512 values) {
  return __builtin_bit_cast(__m256i, _mm512_cvtneps_pbh(values));
}

/// y = panel^T x, by vectors of 16 columns.
template <int width>
inline void GemvPairs(int64_t k, const uint16_t* panel, const float* x, float* total) {
  constexpr int kVectors = (width + 15) / 16;
  __m512 even[kVectors], odd[kVectors];
  for (int v = 0; v < kVectors; ++v) even[v] = odd[v] = _mm512_setzero_ps();
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
  for (; k > 0; k -= 2, x += 2, panel += 2 * width) {
    const __m512 x0 = _mm512_set1_ps(x[0]), x1 = _mm512_set1_ps(x[1]);
    for (int v = 0; v < kVectors; ++v) {
      const int count = width - 16 * v < 16 ? width - 16 * v : 16;
      const __mmask16 mask = static_cast<__mmask16>((1u << count) - 1u);
      const __m512i pairs = _mm512_maskz_loadu_epi32(mask, panel + 32 * v);
      even[v] = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16)), x0, even[v]);
      odd[v] = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_and_si512(pairs, upper)), x1, odd[v]);
    }
  }
  for (int v = 0; v < kVectors; ++v) {
    const int count = width - 16 * v < 16 ? width - 16 * v : 16;
    const __mmask16 mask = static_cast<__mmask16>((1u << count) - 1u);
    _mm512_mask_storeu_ps(total + 16 * v, mask, _mm512_add_ps(even[v], odd[v]));
  }
}

/// Whole pairs: k in [from, to) of the rows, to a panel that begins at `from`. Sixteen steps of a
/// row are rounded together and their pairs dealt out.
inline void PackPairGroups(const float* const* rows, int count, int64_t from, int64_t to, int width,
                           uint16_t* panel) {
  for (int64_t k = from; k < to; k += 16, panel += 16 * width) {
    const int64_t steps = to - k < 16 ? to - k : 16;
    const __mmask16 mask = static_cast<__mmask16>((1u << steps) - 1u);
    for (int i = 0; i < width; ++i) {
      alignas(32) uint32_t pairs[8] = {};
      if (i < count) {
        const __m256i values = RoundVector(_mm512_maskz_loadu_ps(mask, rows[i] + k));
        _mm256_store_si256(reinterpret_cast<__m256i*>(pairs), values);
      }
      for (int64_t pair = 0; pair < steps / 2; ++pair) {
        __builtin_memcpy(panel + (pair * width + i) * 2, &pairs[pair], sizeof(uint32_t));
      }
    }
  }
}

/// An f32 panel of `k` steps and whole vectors of columns to pairs, with zeros up to `padded`.
inline void ConvertPairs(const float* from, int64_t k, int64_t padded, int width, uint16_t* to) {
  const auto rounded = [&](int64_t step, int column) {
    if (step >= k) return _mm512_setzero_si512();
    return _mm512_cvtepu16_epi32(RoundVector(_mm512_loadu_ps(from + step * width + column)));
  };
  for (int64_t step = 0; step < padded; step += 2) {
    for (int column = 0; column < width; column += 16, to += 32) {
      const __m512i odd = _mm512_slli_epi32(rounded(step + 1, column), 16);
      _mm512_storeu_si512(to, _mm512_or_si512(rounded(step, column), odd));
    }
  }
}

}  // namespace oort::OORT_ISA
