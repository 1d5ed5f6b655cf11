// SPDX-License-Identifier: MIT
// Sums of byte products by VPMADDUBSW, eight rows of weights in a register. Only for
// quantized_gemv.dot.cpp. VPMADDUBSW multiplies unsigned by signed bytes and adds two products in
// 16 bits, which holds those of weights of up to 6 bits. Weights of 8 bits and both bytes of x are
// numbers of 16 bits for VPMADDWD, which takes fewer instructions than two products of bytes.
#pragma once

#include <immintrin.h>

#include <cstring>

#include "cpu/unroll.h"
#include "cpu/vec.h"
#include "layers/quantized_linear/cpu/quantized_kernels.h"
#include "layers/quantized_linear/cpu/sums_avx2.h"

namespace oort::OORT_ISA {

inline constexpr int kMostRows = 4;
inline constexpr bool kWide = true;

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
        pairs[r] = line == 0 ? lows : AddInOrder(pairs[r], lows);
        pairs[r] = AddInOrder(pairs[r], _mm256_maddubs_epi16(high, bytes[r].Four(2 * line + 1)));
      });
    });
    Unroll<rows>([&](auto r) { sums[r].v[i] = AddProducts(sums[r].v[i], pairs[r]); });
  });
}

template <WeightType type, int piece, int rows>
inline void AddPiece(const std::byte* lines, const Bytes<piece> (&bytes)[rows],
                     ByteSums (&sums)[rows]) {
  if constexpr (type == WeightType::kInt4) return AddNibbles(lines, bytes, sums);
  static_assert(type != WeightType::kInt8);
  constexpr int kTogether = kShortLines<type, piece>;
  Unroll<2>([&](auto i) {
    Unroll<piece / 4 / kTogether>([&](auto part) {
      __m256i pairs[rows];
      Unroll<kTogether>([&](auto j) {
        constexpr int kLine = part * kTogether + j;
        const __m256i w =
            _mm256_loadu_si256(reinterpret_cast<const __m256i*>(lines + 64 * kLine + 32 * i));
        Unroll<rows>([&](auto r) {
          const __m256i here = _mm256_maddubs_epi16(w, bytes[r].Four(kLine));
          pairs[r] = j == 0 ? here : AddInOrder(pairs[r], here);
        });
      });
      Unroll<rows>([&](auto r) { sums[r].v[i] = AddProducts(sums[r].v[i], pairs[r]); });
    });
  });
}

/// Both bytes of x as one number of 16 bits, kFineSteps * q + fine.
template <int piece>
struct WideBytes {
  alignas(32) int16_t v[piece];
  void Load(const int8_t* q, const int8_t* fine) {
    const __m256i steps = _mm256_set1_epi16(kFineSteps);
    for (int i = 0; i < piece; i += 16) {
      const __m256i coarse = _mm256_mullo_epi16(Widen(q + i), steps);
      _mm256_store_si256(reinterpret_cast<__m256i*>(v + i),
                         _mm256_add_epi16(coarse, Widen(fine + i)));
    }
  }
  __m256i Four(int index) const {
    int64_t four;
    std::memcpy(&four, v + 4 * index, sizeof(four));
    return _mm256_set1_epi64x(four);
  }
  static __m256i Widen(const void* from) {
    return _mm256_cvtepi8_epi16(_mm_loadu_si128(static_cast<const __m128i*>(from)));
  }
};

/// sums += the products of weights of 8 bits with both bytes of x, all in 16 bits: VPMADDWD adds
/// two of the four products of a line, and the other two at the end.
template <int piece, int rows>
inline void AddWide(const std::byte* lines, const WideBytes<piece> (&x)[rows],
                    ByteSums (&sums)[rows]) {
  Unroll<2>([&](auto i) {
    __m256i halves[rows][2];
    Unroll<rows>([&](auto r) { halves[r][0] = halves[r][1] = _mm256_setzero_si256(); });
    Unroll<piece / 4>([&](auto line) {
      Unroll<2>([&](auto half) {
        const __m256i w = WideBytes<piece>::Widen(lines + 64 * line + 32 * i + 16 * half);
        Unroll<rows>([&](auto r) {
          halves[r][half] = AddWholeInOrder(halves[r][half], _mm256_madd_epi16(w, x[r].Four(line)));
        });
      });
    });
    Unroll<rows>([&](auto r) {
      // Rows 0, 1, 4, 5 | 2, 3, 6, 7.
      const __m256i mixed = _mm256_hadd_epi32(halves[r][0], halves[r][1]);
      sums[r].v[i] = _mm256_add_epi32(sums[r].v[i], _mm256_permute4x64_epi64(mixed, 0xd8));
    });
  });
}

}  // namespace oort::OORT_ISA
