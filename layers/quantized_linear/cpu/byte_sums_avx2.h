// SPDX-License-Identifier: MIT
// Sums of byte products by VPMADDUBSW, eight rows of weights in a register. Only for
// quantized_gemv.dot.cpp. VPMADDUBSW multiplies unsigned by signed bytes and adds two products in
// 16 bits. For weights of 8 bits the sign moves to the other factor, so that a sum is at most 2 *
// 128 * 127 and fits.
#pragma once

#include <immintrin.h>

#include <cstring>

#include "cpu/unroll.h"
#include "cpu/vec.h"
#include "layers/quantized_linear/cpu/quantized_kernels.h"

namespace oort::OORT_ISA {

inline constexpr int kMostRows = 4;

struct ByteSums {
  __m256i v[2];
  void Start(int32_t value) { v[0] = v[1] = _mm256_set1_epi32(value); }
  void ToFloat(float scale, Vec* out) const {
    const __m256 factor = _mm256_set1_ps(scale);
    Unroll<2>([&](auto i) { out[i] = Vec(_mm256_mul_ps(_mm256_cvtepi32_ps(v[i]), factor)); });
  }
  void AddFirst(const ByteSums& first) {
    const __m256i steps = _mm256_set1_epi32(kFineSteps);
    Unroll<2>(
        [&](auto i) { v[i] = _mm256_add_epi32(v[i], _mm256_mullo_epi32(first.v[i], steps)); });
  }
  void AddToFloat(float scale, Vec* out) const {
    const __m256 factor = _mm256_set1_ps(scale);
    Unroll<2>(
        [&](auto i) { out[i] = Vec(_mm256_fmadd_ps(_mm256_cvtepi32_ps(v[i]), factor, out[i].v)); });
  }
};

template <int piece>
struct Bytes {
  const int8_t* p;
  void Load(const int8_t* from) { p = from; }
  __m256i Four(int index) const {
    int32_t four;
    std::memcpy(&four, p + 4 * index, sizeof(four));
    return _mm256_set1_epi32(four);
  }
};

inline __m256i AddProducts(__m256i sum, __m256i pairs) {
  return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

/// Pairs of products of weights of 4 bits are at most 2 * 15 * 127, so those of a whole piece still
/// fit 16 bits: only their sum is widened.
template <int piece, int rows>
inline void AddNibbles(const std::byte* lines, const Bytes<piece> (&bytes)[rows],
                       ByteSums (&sums)[rows]) {
  const __m256i mask = _mm256_set1_epi8(15);
  Unroll<2>([&](auto i) {
    __m256i pairs[rows];
    Unroll<piece / 8>([&](auto line) {
      const __m256i w =
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(lines + 64 * line + 32 * i));
      const __m256i low = _mm256_and_si256(w, mask);
      const __m256i high = _mm256_and_si256(_mm256_srli_epi16(w, 4), mask);
      Unroll<rows>([&](auto r) {
        const __m256i lows = _mm256_maddubs_epi16(low, bytes[r].Four(2 * line));
        pairs[r] = line == 0 ? lows : _mm256_add_epi16(pairs[r], lows);
        pairs[r] =
            _mm256_add_epi16(pairs[r], _mm256_maddubs_epi16(high, bytes[r].Four(2 * line + 1)));
      });
    });
    Unroll<rows>([&](auto r) { sums[r].v[i] = AddProducts(sums[r].v[i], pairs[r]); });
  });
}

template <WeightType type, int piece, int rows>
inline void AddPiece(const std::byte* lines, const Bytes<piece> (&bytes)[rows],
                     ByteSums (&sums)[rows]) {
  if constexpr (type == WeightType::kInt4) return AddNibbles(lines, bytes, sums);
  Unroll<piece / 4>([&](auto line) {
    Unroll<2>([&](auto i) {
      const __m256i w =
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(lines + 64 * line + 32 * i));
      if constexpr (type == WeightType::kInt8) {
        const __m256i size = _mm256_abs_epi8(w);
        Unroll<rows>([&](auto r) {
          const __m256i factor = _mm256_sign_epi8(bytes[r].Four(line), w);
          sums[r].v[i] = AddProducts(sums[r].v[i], _mm256_maddubs_epi16(size, factor));
        });
      } else {
        Unroll<rows>([&](auto r) {
          sums[r].v[i] = AddProducts(sums[r].v[i], _mm256_maddubs_epi16(w, bytes[r].Four(line)));
        });
      }
    });
  });
}

}  // namespace oort::OORT_ISA
