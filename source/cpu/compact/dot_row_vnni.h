// SPDX-License-Identifier: MIT
// One row of bytes times a panel of 4 or 8 bits in groups of 32 with f16 scales: what a language
// model does all day. The sums are those of DotRows, bit by bit. Only for compact.dot.cpp.
#pragma once

#include <immintrin.h>

#include "cpu/compact/byte_sums_vnni.h"
#include "cpu/compact/compact_scales.h"
#include "cpu/compact/dot_row.h"
#include "cpu/unroll.h"

namespace oort::OORT_ISA {

/// To the second cache: it has more requests under way than the first one, and what comes from
/// there in order is read ahead by the processor itself.
template <int bytes>
inline void FetchLines(const std::byte* from) {
  Unroll<(bytes + 63) / 64>([&](auto i) { __builtin_prefetch(from + 64 * i, 0, 2); });
}

/// Four bytes of x, 16 times.
inline __m512i FourOf(const int8_t* bytes, int index) {
  int32_t four;
  std::memcpy(&four, bytes + 4 * index, sizeof(four));
  return _mm512_set1_epi32(four);
}

/// start + the products of a group of 4 bits.
inline __m512i NibbleSums(const std::byte* lines, const int8_t* x, int32_t start) {
  const __m512i mask = _mm512_set1_epi8(15);
  // Two chains: an addition waits five cycles for the one before.
  __m512i lows = _mm512_set1_epi32(start), highs = _mm512_setzero_si512();
  Unroll<4>([&](auto i) {
    const __m512i w = _mm512_loadu_si512(lines + 64 * i);
    lows = _mm512_dpbusd_epi32(lows, _mm512_and_si512(w, mask), FourOf(x, 2 * i));
    highs = _mm512_dpbusd_epi32(highs, _mm512_and_si512(_mm512_srli_epi16(w, 4), mask),
                                FourOf(x, 2 * i + 1));
  });
  return _mm512_add_epi32(lows, highs);
}

/// total + minimum * offset + sums * x_scale * scale, in the order of DotRows.
template <bool minimums>
inline __m512 AddGroup(const DotRowX& x, int64_t g, const std::byte* head, __m512i sums,
                       __m512 total) {
  const __m512 partial = _mm512_mul_ps(_mm512_cvtepi32_ps(sums), _mm512_set1_ps(x.scale[g]));
  if constexpr (minimums) {
    total = _mm512_fmadd_ps(LoadHalf(head + 32, 0).v, _mm512_set1_ps(x.offset[g]), total);
  }
  return _mm512_fmadd_ps(partial, LoadHalf(head, 0).v, total);
}

inline __m512i BothBytes(__m512i first, __m512i fine) {
  return _mm512_add_epi32(fine, _mm512_mullo_epi32(first, _mm512_set1_epi32(kFineSteps)));
}

/// Brings as many bytes from `ahead` on nearer.
template <bool minimums>
inline void DotRowInt4(const DotRowX& x, int zero, const std::byte* panel, const std::byte* ahead,
                       float* y) {
  constexpr int kHead = minimums ? 64 : 32, kBytes = kHead + 256;
  __m512 total = _mm512_setzero_ps();
  for (int64_t g = 0; g < x.groups; ++g, panel += kBytes, ahead += kBytes) {
    FetchLines<kBytes>(ahead);
    const int32_t start = minimums ? 0 : -zero * x.sum[g];
    const int8_t *q = x.q + 32 * g, *fine = x.fine + 32 * g;
    const __m512i sums = x.is_fine[g] == 0 ? NibbleSums(panel + kHead, q, start)
                                           : BothBytes(NibbleSums(panel + kHead, q, 0),
                                                       NibbleSums(panel + kHead, fine, start));
    total = AddGroup<minimums>(x, g, panel, sums, total);
  }
  _mm512_storeu_ps(y, total);
}

inline void DotRowInt8(const DotRowX& x, const std::byte* panel, const std::byte* ahead, float* y) {
  constexpr int kHead = 32, kBytes = kHead + 512;
  const __m512i turn = _mm512_set1_epi8(static_cast<char>(0x80));
  __m512 total = _mm512_setzero_ps();
  for (int64_t g = 0; g < x.groups; ++g, panel += kBytes, ahead += kBytes) {
    FetchLines<kBytes>(ahead);
    __m512i first[2], second[2];
    first[0] = first[1] = second[1] = _mm512_setzero_si512();
    second[0] = _mm512_set1_epi32(-kOffset8 * x.sum[g]);
    Unroll<8>([&](auto i) {
      constexpr int kChain = i % 2;
      const __m512i w = _mm512_xor_si512(_mm512_loadu_si512(panel + kHead + 64 * i), turn);
      first[kChain] = _mm512_dpbusd_epi32(first[kChain], w, FourOf(x.q + 32 * g, i));
      second[kChain] = _mm512_dpbusd_epi32(second[kChain], w, FourOf(x.fine + 32 * g, i));
    });
    const __m512i sums =
        BothBytes(_mm512_add_epi32(first[0], first[1]), _mm512_add_epi32(second[0], second[1]));
    total = AddGroup<false>(x, g, panel, sums, total);
  }
  _mm512_storeu_ps(y, total);
}

}  // namespace oort::OORT_ISA
