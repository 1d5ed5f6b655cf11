// SPDX-License-Identifier: MIT
// Sums of products of bytes by VPMADDUBSW, which adds two of them in 16 bits. Only for AVX2's
// units.
#pragma once

#include <immintrin.h>

#include "layers/quantized_linear/cpu/quantized_kernels.h"

namespace oort::OORT_ISA {

/// How many lines of a piece fit 16 bits together, where weights have no sign: pairs of products
/// are at most 2 * 15 * 127, 2 * 31 * 127 or 2 * 63 * 127.
template <WeightType type, int piece>
inline constexpr int kShortLines = type == WeightType::kInt4   ? piece / 4
                                   : type == WeightType::kInt5 ? 4
                                                               : 2;

/// GCC adds integers in an order of its own, for which it keeps all products in memory.
[[gnu::always_inline]] inline __m256i AddInOrder(__m256i a, __m256i b) {
  __m256i sum = _mm256_add_epi16(a, b);
  asm("" : "+x"(sum));
  return sum;
}

/// The same of 32 bits.
[[gnu::always_inline]] inline __m256i AddWholeInOrder(__m256i a, __m256i b) {
  __m256i sum = _mm256_add_epi32(a, b);
  asm("" : "+x"(sum));
  return sum;
}

[[gnu::always_inline]] inline __m256i AddProducts(__m256i sum, __m256i pairs) {
  return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

}  // namespace oort::OORT_ISA
