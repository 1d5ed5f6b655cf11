// SPDX-License-Identifier: MIT
// Products on AMX whose rows are read where they lie in an image. Only for gemm.bf16.cpp.
#pragma once

#include "cpu/gemm_bf16_amx.h"

namespace oort::OORT_ISA {

/// Rounds to bf16, 32 at a time; returns whether all are finite.
inline bool RoundFloats(const float* from, int64_t count, uint16_t* to) {
  const __m512i exponent = _mm512_set1_epi32(0x7f800000);
  __mmask16 special = 0;
  for (int64_t i = 0; i < count; i += 16) {
    const __mmask16 mask = static_cast<__mmask16>(count - i < 16 ? (1u << (count - i)) - 1u : ~0u);
    const __m512 x = _mm512_maskz_loadu_ps(mask, from + i);
    const __m512i bits = _mm512_and_si512(_mm512_castps_si512(x), exponent);
    special = static_cast<__mmask16>(special | _mm512_cmpeq_epi32_mask(bits, exponent));
    _mm256_mask_storeu_epi16(to + i, mask, RoundVector(x));
  }
  return special == 0;
}

/// Bias first, as in UnitTile.
inline void WindowTile(const GemmWindowTile& tile) {
  alignas(64) float sums[kUnitRows * kUnitColumns], bias[kUnitColumns];
  constexpr int64_t kFloat = sizeof(float);
  const bool columns = tile.columns % 16 == 0;
  const bool direct = columns && tile.activation.kind == Activation::kNone;
  TileSums ends[2];
  for (int i = 0; i < 2; ++i) {
    const GemmWindowHalf& half = tile.halves[i];
    const bool in_place = direct && half.rows == 16 && half.addend == nullptr;
    ends[i].from = tile.bias;
    ends[i].to = in_place ? half.c : sums + 16 * i * kUnitColumns;
    ends[i].to_stride = in_place ? tile.ldc * kFloat : kFloat * kUnitColumns;
    if (tile.bias == nullptr || columns) continue;
    if (i == 0) CopyFloats(tile.bias, tile.columns, bias);
    ends[i].from = bias;
  }
  TileFactors factors;
  factors.upper = static_cast<const char*>(tile.halves[0].a);
  factors.lower = static_cast<const char*>(tile.halves[1].a);
  factors.a_stride = tile.a_stride;
  factors.b = static_cast<const char*>(tile.b);
  factors.steps = tile.steps;
  factors.soon = static_cast<const char*>(tile.soon);
  factors.soon_bytes = tile.soon_bytes;
  const int64_t* offsets = tile.offsets;
  MultiplyTiles<Bf16Products>(factors, tile.halves[1].rows > 0, tile.columns > 16, ends[0], ends[1],
                              [=](int64_t step) { return offsets[step]; });
  for (int i = 0; i < 2; ++i) {
    const GemmWindowHalf& half = tile.halves[i];
    if (half.rows == 0 || ends[i].to == half.c) continue;
    GemmTile rest;
    rest.c = half.c;
    rest.ldc = tile.ldc;
    rest.rows = half.rows;
    rest.columns = tile.columns;
    rest.addend = half.addend;
    rest.addend_stride = tile.addend_stride;
    rest.activation = tile.activation;
    Finish<kUnitColumns>(rest, ends[i].to);
  }
}

inline constexpr GemmWindowKernels kWindowKernels = {.round = RoundFloats, .tile = WindowTile};

}  // namespace oort::OORT_ISA
