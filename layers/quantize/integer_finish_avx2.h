// SPDX-License-Identifier: MIT
// Sums of integer kernels in vectors of AVX2, and what is made of them. Only for integer.dot.cpp
// and integer.vnni.cpp.
#pragma once

#include <immintrin.h>

#include <cstring>

#include "cpu/unroll.h"
#include "layers/quantize/integer_kernels.h"

namespace oort::OORT_ISA {
namespace {

/// What is made of sums, 8 channels a vector.
class Avx2Finish {
 public:
  explicit Avx2Finish(const IntegerEpilogue& epilogue)
      : of_(epilogue),
        high_(_mm256_set1_ps(epilogue.high)),
        addend_scale_(_mm256_set1_ps(epilogue.addend_scale)) {
    if (epilogue.result == IntegerResult::kF32) return;
    // Bytes are made as u8: i8 are 128 more on the way.
    const int moved = epilogue.result == IntegerResult::kI8 ? 128 : 0;
    const int zero_point = epilogue.zero_point + moved;
    zero_point_ = _mm256_set1_epi16(static_cast<int16_t>(zero_point));
    const auto byte = [&](float limit) {
      return _mm256_set1_epi8(static_cast<char>(_mm_cvtss_si32(_mm_set_ss(limit)) + zero_point));
    };
    low_ = byte(epilogue.low);
    high_byte_ = byte(epilogue.high);
    sign_ = _mm256_set1_epi8(static_cast<char>(moved));
  }

  /// Of the first `count` channels from `channel` on of output `at`.
  template <int vectors>
  [[gnu::always_inline]] void Row(const __m256i (&sums)[vectors], int64_t at, int64_t channel,
                                  int64_t count) const {
    __m256 values[vectors];
    Unroll<vectors>([&](auto v) {
      const int64_t c = channel + v * 8;
      values[v] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sums[v]), _mm256_loadu_ps(of_.scale + c),
                                  _mm256_loadu_ps(of_.bias + c));
    });
    const size_t used = static_cast<size_t>(count < vectors * 8 ? count : vectors * 8);
    if (of_.addend != nullptr) {
      Add(values, static_cast<const uint8_t*>(of_.addend) + at * of_.addend_stride + channel, used);
    }
    const int64_t place = at * of_.stride + channel;
    if (of_.result == IntegerResult::kF32) {
      return StoreFloats(values, static_cast<float*>(of_.out) + place, used);
    }
    StoreBytes(values, static_cast<uint8_t*>(of_.out) + place, used);
  }

 private:
  template <int vectors>
  [[gnu::always_inline]] void Add(__m256 (&values)[vectors], const uint8_t* addend,
                                  size_t used) const {
    // A copy of a length that is known here is no call.
    uint8_t bytes[vectors * 8];
    if (used == sizeof bytes) {
      std::memcpy(bytes, addend, sizeof bytes);
    } else {
      std::memset(bytes, 0, sizeof bytes);
      std::memcpy(bytes, addend, used);
    }
    Unroll<vectors>([&](auto v) {
      int64_t eight;
      std::memcpy(&eight, bytes + v * 8, sizeof eight);
      const __m128i low = _mm_cvtsi64_si128(eight);
      const __m256i wide =
          of_.addend_signed ? _mm256_cvtepi8_epi32(low) : _mm256_cvtepu8_epi32(low);
      values[v] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(wide), addend_scale_, values[v]);
    });
  }

  template <int vectors>
  [[gnu::always_inline]] static void StoreFloats(const __m256 (&values)[vectors], float* out,
                                                 size_t used) {
    float results[vectors * 8];
    Unroll<vectors>([&](auto v) { _mm256_storeu_ps(results + v * 8, values[v]); });
    if (used == vectors * 8) {
      std::memcpy(out, results, sizeof results);
    } else {
      std::memcpy(out, results, used * sizeof(float));
    }
  }

  /// As VnniFinish::StoreBytes.
  template <int vectors>
  [[gnu::always_inline]] void StoreBytes(const __m256 (&values)[vectors], uint8_t* out,
                                         size_t used) const {
    __m256i integers[4];
    Unroll<4>([&](auto v) {
      if constexpr (v < vectors) {
        integers[v] = _mm256_cvtps_epi32(of_.fits ? values[v] : _mm256_min_ps(values[v], high_));
      } else {
        integers[v] = _mm256_setzero_si256();
      }
    });
    const __m256i first =
        _mm256_adds_epi16(_mm256_packs_epi32(integers[0], integers[1]), zero_point_);
    const __m256i last =
        _mm256_adds_epi16(_mm256_packs_epi32(integers[2], integers[3]), zero_point_);
    __m256i bytes = _mm256_packus_epi16(first, last);
    bytes = _mm256_min_epu8(_mm256_max_epu8(bytes, low_), high_byte_);
    bytes = _mm256_xor_si256(bytes, sign_);
    // Each half has four channels of each vector.
    bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    const __m128i low = _mm256_castsi256_si128(bytes);
    if (vectors == 4 && used == 32) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), bytes);
    } else if (vectors == 2 && used == 16) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out), low);
    } else if (vectors == 1 && used == 8) {
      _mm_storel_epi64(reinterpret_cast<__m128i*>(out), low);
    } else {
      uint8_t results[32];
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(results), bytes);
      std::memcpy(out, results, used);
    }
  }

  IntegerEpilogue of_;
  __m256 high_, addend_scale_;
  __m256i zero_point_ = {}, low_ = {}, high_byte_ = {}, sign_ = {};
};

/// What units of eight sums have in common.
struct Avx2Lanes {
  static constexpr int kLanes = 8;
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
  /// Four bytes, whatever numbers they are, for all lanes.
  static Numbers Broadcast(const std::byte* at) {
    int32_t four;
    std::memcpy(&four, at, sizeof four);
    return _mm256_set1_epi32(four);
  }
};

}  // namespace
}  // namespace oort::OORT_ISA
