// SPDX-License-Identifier: MIT
// Sums of byte products by VPDPBUSD, all 16 rows of weights in a register. Only for
// quantized_gemv.dot.cpp. The first factor of VPDPBUSD is unsigned, so 128 is added to weights of 8
// bits (kOffset8).
#pragma once

#include <immintrin.h>

#include <cstring>

#include "cpu/unroll.h"
#include "cpu/vec.h"
#include "layers/quantized_linear/cpu/quantized_kernels.h"

namespace oort::OORT_ISA {

inline constexpr int kMostRows = 4;
inline constexpr int kOffset8 = 128;

struct ByteSums {
  __m512i v;
  void Start(int32_t value) { v = _mm512_set1_epi32(value); }
  void ToFloat(float scale, Vec* out) const {
    out[0] = Vec(_mm512_mul_ps(_mm512_cvtepi32_ps(v), _mm512_set1_ps(scale)));
  }
  void AddFirst(const ByteSums& first) {
    v = _mm512_add_epi32(v, _mm512_mullo_epi32(first.v, _mm512_set1_epi32(kFineSteps)));
  }
  void AddToFloat(float scale, Vec* out) const {
    out[0] = Vec(_mm512_fmadd_ps(_mm512_cvtepi32_ps(v), _mm512_set1_ps(scale), out[0].v));
  }
};

template <int piece>
struct Bytes {
  const int8_t* p;
  void Load(const int8_t* from) { p = from; }
  __m512i Four(int index) const {
    int32_t four;
    std::memcpy(&four, p + 4 * index, sizeof(four));
    return _mm512_set1_epi32(four);
  }
};

template <WeightType type, int piece, int rows>
inline void AddPiece(const std::byte* lines, const Bytes<piece> (&bytes)[rows],
                     ByteSums (&sums)[rows]) {
  constexpr int kLines = type == WeightType::kInt4 ? piece / 8 : piece / 4;
  Unroll<kLines>([&](auto line) {
    const __m512i w = _mm512_loadu_si512(lines + 64 * line);
    if constexpr (type == WeightType::kInt4) {
      const __m512i mask = _mm512_set1_epi8(15);
      const __m512i low = _mm512_and_si512(w, mask);
      const __m512i high = _mm512_and_si512(_mm512_srli_epi16(w, 4), mask);
      Unroll<rows>([&](auto r) {
        sums[r].v = _mm512_dpbusd_epi32(sums[r].v, low, bytes[r].Four(2 * line));
        sums[r].v = _mm512_dpbusd_epi32(sums[r].v, high, bytes[r].Four(2 * line + 1));
      });
    } else {
      const int8_t sign = type == WeightType::kInt8 ? -128 : 0;
      const __m512i moved = _mm512_xor_si512(w, _mm512_set1_epi8(sign));
      Unroll<rows>(
          [&](auto r) { sums[r].v = _mm512_dpbusd_epi32(sums[r].v, moved, bytes[r].Four(line)); });
    }
  });
}

}  // namespace oort::OORT_ISA
