// SPDX-License-Identifier: MIT
// Integer kernels for AVX2: numbers are widened to s16, and VPMADDWD sums two products of them in
// s32. VPMADDUBSW, which takes bytes, would saturate: 2 * 255 * 127 is no s16. Only for
// integer.dot.cpp.
#pragma once

#include "layers/quantize/integer_finish_avx2.h"
#include "layers/quantize/integer_tiles.h"
#include "layers/quantize/integer_winograd_avx2.h"

namespace oort::OORT_ISA {
namespace {

struct Avx2Unit : Avx2Lanes {
  static constexpr int kRows = 2;
  using Number = int16_t;

  static Sums MultiplyAdd(Sums sums, Numbers x, Numbers w) {
    return _mm256_add_epi32(sums, _mm256_madd_epi16(x, w));
  }
  template <int rows>
  static Numbers Interleave(const std::byte* numbers, int64_t step) {
    const __m128i first = _mm_loadu_si128(reinterpret_cast<const __m128i*>(numbers));
    __m128i second = _mm_setzero_si128();
    if constexpr (rows > 1) {
      second = _mm_loadu_si128(reinterpret_cast<const __m128i*>(numbers + step));
    }
    return _mm256_set_m128i(_mm_unpackhi_epi16(first, second), _mm_unpacklo_epi16(first, second));
  }
};

void Stage(const void* bytes, bool is_signed, int64_t count, void* staged) {
  int16_t* to = static_cast<int16_t*>(staged);
  if (is_signed) {
    const int8_t* from = static_cast<const int8_t*>(bytes);
    for (int64_t i = 0; i < count; ++i) to[i] = from[i];
  } else {
    const uint8_t* from = static_cast<const uint8_t*>(bytes);
    for (int64_t i = 0; i < count; ++i) to[i] = from[i];
  }
}

void Product(const IntegerWindows& job) {
  if (job.channels > 8) return Tiles<Avx2Unit, 2, 6>(job);
  Tiles<Avx2Unit, 1, 8>(job);
}

constexpr IntegerKernels kIntegerKernels = {.staged_signed = true,
                                            .staged_bytes = 2,
                                            .step = 2,
                                            .lanes = 8,
                                            .panel = 16,
                                            .depthwise_rows = 2,
                                            .depthwise_lanes = 8,
                                            .stage = Stage,
                                            .product = Product,
                                            .depthwise = DepthwiseRow<Avx2Unit>,
                                            .winograd_transform = TransformTiles,
                                            .winograd_product = MultiplyTiles};

}  // namespace
}  // namespace oort::OORT_ISA
