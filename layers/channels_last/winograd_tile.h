// SPDX-License-Identifier: MIT
// A few rows times one panel of columns, in registers. Only for winograd.simd.cpp.
// MultiplyRows(rows, a, lda, k, b, c, ldc, soon, soon_step): c[rows][kWinogradColumns] =
// a[rows][k] b. `soon` may be fetched into the cache, soon_step bytes for each step of k.
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
                         int64_t ldc, const float* /*soon*/, int64_t /*soon_step*/) {
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

using MultiplyFunction = void (*)(const float*, int64_t, int64_t, const float*, float*, int64_t,
                                  const float*, int64_t);

template <int... i>
MultiplyFunction MultiplyFor(int rows, std::integer_sequence<int, i...>) {
  static constexpr MultiplyFunction kTable[] = {MultiplySome<i + 1>...};
  return kTable[rows - 1];
}

inline void MultiplyRows(int rows, const float* a, int64_t lda, int64_t k, const float* b, float* c,
                         int64_t ldc, const float* soon, int64_t soon_step) {
  constexpr auto kRows = std::make_integer_sequence<int, kWinogradRows>{};
  MultiplyFor(rows, kRows)(a, lda, k, b, c, ldc, soon, soon_step);
}

}  // namespace oort::OORT_ISA
