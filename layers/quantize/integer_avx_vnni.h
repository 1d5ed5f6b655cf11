// SPDX-License-Identifier: MIT
// Integer kernels for AVX-VNNI: VPDPBUSD adds four products of u8 and s8 to each of 8 sums, on
// processors that lack AVX-512. Only for integer.vnni.cpp.
#pragma once

#include "layers/quantize/integer_finish_avx2.h"
#include "layers/quantize/integer_stage.h"
#include "layers/quantize/integer_tiles.h"

namespace oort::OORT_ISA {
namespace {

struct AvxVnniUnit : Avx2Lanes {
  static constexpr int kRows = 4;
  using Number = uint8_t;

  static Sums MultiplyAdd(Sums sums, Numbers x, Numbers w) {
    return _mm256_dpbusd_avx_epi32(sums, x, w);
  }

  /// Eight channels of row `row`, or zeros.
  template <int rows, int row>
  static __m128i Eight(const std::byte* bytes, int64_t step) {
    if constexpr (row >= rows) return _mm_setzero_si128();
    return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes + row * step));
  }
  template <int rows>
  static Numbers Interleave(const std::byte* bytes, int64_t step) {
    const __m128i upper =
        _mm_unpacklo_epi8(Eight<rows, 0>(bytes, step), Eight<rows, 1>(bytes, step));
    const __m128i lower =
        _mm_unpacklo_epi8(Eight<rows, 2>(bytes, step), Eight<rows, 3>(bytes, step));
    return _mm256_set_m128i(_mm_unpackhi_epi16(upper, lower), _mm_unpacklo_epi16(upper, lower));
  }
};

void Product(const IntegerWindows& job) {
  if (job.channels > 8) return Tiles<AvxVnniUnit, 2, 6>(job);
  Tiles<AvxVnniUnit, 1, 8>(job);
}

constexpr IntegerKernels kIntegerKernels = {.staged_signed = false,
                                            .staged_bytes = 1,
                                            .step = 4,
                                            .lanes = 8,
                                            .panel = 16,
                                            .depthwise_rows = 4,
                                            .depthwise_lanes = 8,
                                            .stage = StageUnsigned,
                                            .product = Product,
                                            .depthwise = DepthwiseRow<AvxVnniUnit>};

}  // namespace
}  // namespace oort::OORT_ISA
