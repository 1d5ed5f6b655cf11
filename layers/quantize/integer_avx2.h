// SPDX-License-Identifier: MIT
// Integer kernels for AVX2: numbers are widened to s16, and VPMADDWD sums two products of them in
// s32. VPMADDUBSW, which takes bytes, would saturate: 2 * 255 * 127 is no s16. Only for
// integer.dot.cpp.
#pragma once

#include <immintrin.h>

#include <cstring>

#include "layers/quantize/integer_tiles.h"

namespace oort::OORT_ISA {
namespace {

/// What is made of the sums of 8 channels.
class Avx2Finish {
 public:
  explicit Avx2Finish(const IntegerEpilogue& epilogue)
      : of_(epilogue),
        low_(_mm256_set1_ps(epilogue.low)),
        high_(_mm256_set1_ps(epilogue.high)),
        zero_point_(_mm256_set1_epi32(epilogue.zero_point)),
        addend_scale_(_mm256_set1_ps(epilogue.addend_scale)) {}

  /// Of the first `count` channels from `channel` on of output `at`.
  [[gnu::always_inline]] void operator()(__m256i sums, int64_t at, int64_t channel,
                                         int64_t count) const {
    const size_t used = static_cast<size_t>(count < 8 ? count : 8);
    __m256 value = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sums), _mm256_loadu_ps(of_.scale + channel),
                                   _mm256_loadu_ps(of_.bias + channel));
    const int64_t place = at * of_.stride + channel;
    if (of_.addend != nullptr) {
      const int64_t from = at * of_.addend_stride + channel;
      int64_t eight = 0;
      std::memcpy(&eight, static_cast<const uint8_t*>(of_.addend) + from, used);
      const __m128i bytes = _mm_cvtsi64_si128(eight);
      const __m256i addend =
          of_.addend_signed ? _mm256_cvtepi8_epi32(bytes) : _mm256_cvtepu8_epi32(bytes);
      value = _mm256_fmadd_ps(_mm256_cvtepi32_ps(addend), addend_scale_, value);
    }
    if (of_.result == IntegerResult::kF32) {
      float results[8];
      _mm256_storeu_ps(results, value);
      std::memcpy(static_cast<float*>(of_.out) + place, results, used * sizeof(float));
      return;
    }
    value = _mm256_max_ps(_mm256_min_ps(value, high_), low_);
    const __m256i rounded = _mm256_add_epi32(_mm256_cvtps_epi32(value), zero_point_);
    // The lowest byte of each sum, first within both halves, then together.
    const __m256i lowest = _mm256_shuffle_epi8(
        rounded, _mm256_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 4,
                                  8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1));
    const __m128i bytes =
        _mm_unpacklo_epi32(_mm256_castsi256_si128(lowest), _mm256_extracti128_si256(lowest, 1));
    const int64_t eight = _mm_cvtsi128_si64(bytes);
    std::memcpy(static_cast<uint8_t*>(of_.out) + place, &eight, used);
  }

  template <int vectors, typename Sums>
  [[gnu::always_inline]] void Row(const Sums (&sums)[vectors], int64_t at, int64_t channel,
                                  int64_t count) const {
    Unroll<vectors>([&](auto v) { (*this)(sums[v], at, channel + v * 8, count - v * 8); });
  }

 private:
  IntegerEpilogue of_;
  __m256 low_, high_;
  __m256i zero_point_;
  __m256 addend_scale_;
};

struct Avx2Unit {
  static constexpr int kLanes = 8, kRows = 2;
  using Number = int16_t;
  using Sums = __m256i;
  using Numbers = __m256i;
  using Finish = Avx2Finish;

  static Sums LoadSums(const int32_t* at) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
  }
  static Numbers Load(const std::byte* at) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
  }
  static void Store(std::byte* at, Numbers numbers) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(at), numbers);
  }
  static Numbers Broadcast(const std::byte* at) {
    int32_t two;
    std::memcpy(&two, at, sizeof two);
    return _mm256_set1_epi32(two);
  }
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
                                            .depthwise = DepthwiseRow<Avx2Unit>};

}  // namespace
}  // namespace oort::OORT_ISA
