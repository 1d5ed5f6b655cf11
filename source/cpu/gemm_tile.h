// SPDX-License-Identifier: MIT
// The inner loop of a matrix product: a tile of C in registers. Only for gemm.simd.cpp.
// Compute<rows, vectors> leaves the sums of a tile in out[rows][kGemmColumns].
#pragma once

#include "cpu/gemm_whole_tile.h"
#include "cpu/unroll.h"
#include "cpu/vec.h"

#if defined(OORT_ISA_neon)
#include "cpu/gemm_tile_neon.h"
#else

namespace oort::OORT_ISA {

// Accumulators, the vectors of B and one broadcast element of A fill the registers: 16 on AVX2,
// 32 on AVX-512.
#if defined(OORT_ISA_avx512)
inline constexpr int kGemmRows = 14, kGemmVectors = 2, kGemmDepth = 256;
#elif defined(OORT_ISA_avx2)
inline constexpr int kGemmRows = 6, kGemmVectors = 2, kGemmDepth = 256;
#else
inline constexpr int kGemmRows = 4, kGemmVectors = 4, kGemmDepth = 256;
#endif
inline constexpr int kGemmColumns = kGemmVectors * Vec::kWidth;

template <int rows, int vectors>
inline void Compute(int64_t k, const float* a, const float* b, float* out) {
  Vec sums[rows][vectors];
  Unroll<rows>([&](auto r) { Unroll<vectors>([&](auto v) { sums[r][v] = Vec::Zero(); }); });
  for (; k > 0; --k) {
    Vec columns[vectors];
    Unroll<vectors>([&](auto v) { columns[v] = Vec::Load(b + v * Vec::kWidth); });
    Unroll<rows>([&](auto r) {
      const Vec row = Vec::Broadcast(a[r]);
      Unroll<vectors>([&](auto v) { sums[r][v] = Fma(row, columns[v], sums[r][v]); });
    });
    a += kGemmRows;
    b += kGemmColumns;
  }
  Unroll<rows>([&](auto r) {
    Unroll<vectors>([&](auto v) { sums[r][v].Store(out + r * kGemmColumns + v * Vec::kWidth); });
  });
}

inline void ComputeWhole(const WholeTile& tile) {
  Vec sums[kGemmRows][kGemmVectors];
  Unroll<kGemmRows>([&](auto r) {
    Unroll<kGemmVectors>([&](auto v) {
      sums[r][v] = Vec::Load(tile.init + r * tile.init_stride + v * Vec::kWidth);
    });
  });
  const float* a = static_cast<const float*>(tile.a);
  const float* b = static_cast<const float*>(tile.b);
  for (int64_t k = tile.k; k > 0; --k) {
    Vec columns[kGemmVectors];
    Unroll<kGemmVectors>([&](auto v) { columns[v] = Vec::Load(b + v * Vec::kWidth); });
    Unroll<kGemmRows>([&](auto r) {
      const Vec row = Vec::Broadcast(a[r]);
      Unroll<kGemmVectors>([&](auto v) { sums[r][v] = Fma(row, columns[v], sums[r][v]); });
    });
    a += kGemmRows;
    b += kGemmColumns;
  }
  if (tile.addend != nullptr) {
    Unroll<kGemmRows>([&](auto r) {
      Unroll<kGemmVectors>([&](auto v) {
        const float* addend = tile.addend + r * tile.addend_stride + v * Vec::kWidth;
        sums[r][v] = sums[r][v] + Vec::Load(addend);
      });
    });
  }
  if (tile.clamp) {
    Unroll<kGemmRows>([&](auto r) {
      Unroll<kGemmVectors>(
          [&](auto v) { sums[r][v] = Min(Max(sums[r][v], Vec(tile.low)), Vec(tile.high)); });
    });
  }
  Unroll<kGemmRows>([&](auto r) {
    Unroll<kGemmVectors>(
        [&](auto v) { sums[r][v].Store(tile.c + r * tile.ldc + v * Vec::kWidth); });
  });
}

}  // namespace oort::OORT_ISA

#endif
