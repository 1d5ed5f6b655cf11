// SPDX-License-Identifier: MIT
// A few rows times one panel of columns, in registers. Only for winograd.simd.cpp.
// MultiplyRows(rows, a, lda, k, b, c, ldc): c[rows][kWinogradColumns] = a[rows][k] b.
#pragma once

#include "cpu/unroll.h"
#include "cpu/vec.h"

#if defined(OORT_ISA_neon)
#include "layers/channels_last/winograd_tile_neon.h"
#else

namespace oort::OORT_ISA {

#if defined(OORT_ISA_avx512)
inline constexpr int kWinogradRows = 6, kWinogradVectors = 4;
#elif defined(OORT_ISA_avx2)
inline constexpr int kWinogradRows = 6, kWinogradVectors = 2;
#else
inline constexpr int kWinogradRows = 4, kWinogradVectors = 4;
#endif
inline constexpr int kWinogradColumns = kWinogradVectors * Vec::kWidth;

template <int rows>
inline void MultiplySome(const float* a, int64_t lda, int64_t k, const float* b, float* c,
                         int64_t ldc) {
  constexpr int kVectors = kWinogradVectors;
  Vec sums[rows][kVectors];
  Unroll<rows>([&](auto r) { Unroll<kVectors>([&](auto v) { sums[r][v] = Vec::Zero(); }); });
  for (; k > 0; --k, ++a, b += kWinogradColumns) {
    Vec columns[kVectors];
    Unroll<kVectors>([&](auto v) { columns[v] = Vec::Load(b + v * Vec::kWidth); });
    Unroll<rows>([&](auto r) {
      const Vec row = Vec::Broadcast(a[r * lda]);
      Unroll<kVectors>([&](auto v) { sums[r][v] = Fma(row, columns[v], sums[r][v]); });
    });
  }
  Unroll<rows>([&](auto r) {
    Unroll<kVectors>([&](auto v) { sums[r][v].Store(c + r * ldc + v * Vec::kWidth); });
  });
}

}  // namespace oort::OORT_ISA

#endif

namespace oort::OORT_ISA {

inline void MultiplyRows(int rows, const float* a, int64_t lda, int64_t k, const float* b, float* c,
                         int64_t ldc) {
  using Function = void (*)(const float*, int64_t, int64_t, const float*, float*, int64_t);
  static constexpr Function kTable[] = {
    MultiplySome<1>,
    MultiplySome<2>,
    MultiplySome<3>,
    MultiplySome<4>,
#if !defined(OORT_ISA_scalar)
    MultiplySome<5>
#endif
  };
  kTable[rows - 1](a, lda, k, b, c, ldc);
}

}  // namespace oort::OORT_ISA
