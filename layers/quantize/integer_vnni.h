// SPDX-License-Identifier: MIT
// Integer kernels for AVX-512 with VNNI: VPDPBUSD adds four products of u8 and s8 to each of 16
// sums. Only for integer.dot.cpp.
#pragma once

#include <immintrin.h>

#include <cstring>

#include "layers/quantize/integer_stage.h"
#include "layers/quantize/integer_tiles.h"

namespace oort::OORT_ISA {
namespace {

/// What is made of sums, 16 channels a vector.
class VnniFinish {
 public:
  explicit VnniFinish(const IntegerEpilogue& epilogue)
      : of_(epilogue),
        high_(_mm512_set1_ps(epilogue.high)),
        addend_scale_(_mm512_set1_ps(epilogue.addend_scale)) {
    if (epilogue.result == IntegerResult::kF32) return;
    // Bytes are made as u8: i8 are 128 more on the way.
    const int moved = epilogue.result == IntegerResult::kI8 ? 128 : 0;
    const int zero_point = epilogue.zero_point + moved;
    zero_point_ = _mm512_set1_epi16(static_cast<int16_t>(zero_point));
    const auto byte = [&](float limit) {
      return _mm512_set1_epi8(static_cast<char>(_mm_cvtss_si32(_mm_set_ss(limit)) + zero_point));
    };
    low_ = byte(epilogue.low);
    high_byte_ = byte(epilogue.high);
    sign_ = _mm512_set1_epi8(static_cast<char>(moved));
  }

  /// Of the first `count` channels from `channel` on of output `at`.
  template <int vectors>
  [[gnu::always_inline]] void Row(const __m512i (&sums)[vectors], int64_t at, int64_t channel,
                                  int64_t count) const {
    __m512 values[vectors];
    Unroll<vectors>([&](auto v) {
      const int64_t c = channel + v * 16;
      values[v] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums[v]), _mm512_loadu_ps(of_.scale + c),
                                  _mm512_loadu_ps(of_.bias + c));
    });
    Values<vectors, false>(values, at, channel, count);
  }

  /// Whether results are bytes, and values fit into integers.
  bool IsPlain() const { return of_.result != IntegerResult::kF32 && of_.fits; }

  /// The same of sums that are scaled already. `plain`: IsPlain(), and all vectors are whole.
  template <int vectors, bool plain>
  [[gnu::always_inline]] void Values(__m512 (&values)[vectors], int64_t at, int64_t channel,
                                     int64_t count) const {
    if constexpr (plain) count = 16 * vectors;
    if (of_.addend != nullptr) {
      const uint8_t* from =
          static_cast<const uint8_t*>(of_.addend) + at * of_.addend_stride + channel;
      Unroll<vectors>([&](auto v) {
        const __m128i bytes = _mm_maskz_loadu_epi8(Mask16(count - v * 16), from + v * 16);
        const __m512i addend =
            of_.addend_signed ? _mm512_cvtepi8_epi32(bytes) : _mm512_cvtepu8_epi32(bytes);
        values[v] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(addend), addend_scale_, values[v]);
      });
    }
    const int64_t place = at * of_.stride + channel;
    if (!plain && of_.result == IntegerResult::kF32) {
      float* out = static_cast<float*>(of_.out) + place;
      Unroll<vectors>(
          [&](auto v) { _mm512_mask_storeu_ps(out + v * 16, Mask16(count - v * 16), values[v]); });
      return;
    }
    StoreBytes<vectors, plain>(values, count, static_cast<uint8_t*>(of_.out) + place);
  }

 private:
  static __mmask16 Mask16(int64_t count) {
    return static_cast<__mmask16>(count >= 16 ? 0xffffu : (1u << count) - 1u);
  }

  /// The upper limit holds before numbers become integers where they might else not fit; what is
  /// beyond a limit saturates on its way to u8, and is moved there.
  template <int vectors, bool plain>
  [[gnu::always_inline]] void StoreBytes(const __m512 (&values)[vectors], int64_t count,
                                         uint8_t* out) const {
    __m512i integers[4];
    Unroll<4>([&](auto v) {
      if constexpr (v < vectors) {
        integers[v] =
            _mm512_cvtps_epi32(plain || of_.fits ? values[v] : _mm512_min_ps(values[v], high_));
      } else {
        integers[v] = _mm512_setzero_si512();
      }
    });
    const __m512i first =
        _mm512_adds_epi16(_mm512_packs_epi32(integers[0], integers[1]), zero_point_);
    const __m512i last =
        _mm512_adds_epi16(_mm512_packs_epi32(integers[2], integers[3]), zero_point_);
    __m512i bytes = _mm512_packus_epi16(first, last);
    bytes = _mm512_min_epu8(_mm512_max_epu8(bytes, low_), high_byte_);
    bytes = _mm512_xor_si512(bytes, sign_);
    // Each quarter has four channels of each vector.
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    bytes = _mm512_permutexvar_epi32(order, bytes);
    if (vectors == 4 && count >= 64) {
      _mm512_storeu_si512(out, bytes);
    } else if (vectors == 2 && count >= 32) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm512_castsi512_si256(bytes));
    } else if (vectors == 1 && count >= 16) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm512_castsi512_si128(bytes));
    } else {
      const int64_t used = count < vectors * 16 ? count : vectors * 16;
      const __mmask64 mask = used >= 64 ? ~__mmask64{0} : (__mmask64{1} << used) - 1;
      _mm512_mask_storeu_epi8(out, mask, bytes);
    }
  }

  IntegerEpilogue of_;
  __m512 high_, addend_scale_;
  __m512i zero_point_ = {}, low_ = {}, high_byte_ = {}, sign_ = {};
};

struct VnniUnit {
  static constexpr int kLanes = 16, kRows = 4;
  using Number = uint8_t;
  using Sums = __m512i;
  using Numbers = __m512i;
  using Finish = VnniFinish;

  static Sums LoadSums(const int32_t* at) { return _mm512_loadu_si512(at); }
  static Numbers Load(const std::byte* at) { return _mm512_loadu_si512(at); }
  static void Store(std::byte* at, Numbers numbers) { _mm512_storeu_si512(at, numbers); }
  static Numbers Broadcast(const std::byte* at) {
    int32_t four;
    std::memcpy(&four, at, sizeof four);
    return _mm512_set1_epi32(four);
  }
  /// As an asm statement, because GCC 12 moves sums to and fro and spills weights around the
  /// intrinsic, _mm512_dpbusd_epi32.
  static Sums MultiplyAdd(Sums sums, Numbers x, Numbers w) {
    asm("vpdpbusd %2, %1, %0" : "+v"(sums) : "v"(x), "v"(w));
    return sums;
  }

  /// The bytes that row `row` contributes: each to its place in the four of its channel.
  template <int row>
  static __m512i Row(const std::byte* bytes) {
    const __m128i sixteen = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes));
    constexpr int kShift = 8 * row;
    const auto four = [](int channel) {
      const uint32_t nothing = 0x80808080u & ~(0xffu << kShift);
      return static_cast<int>(nothing | static_cast<uint32_t>(channel) << kShift);
    };
    const __m512i places = _mm512_setr_epi32(four(0), four(1), four(2), four(3), four(4), four(5),
                                             four(6), four(7), four(8), four(9), four(10), four(11),
                                             four(12), four(13), four(14), four(15));
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(sixteen), places);
  }
  template <int rows>
  static Numbers Interleave(const std::byte* bytes, int64_t step) {
    __m512i all = Row<0>(bytes);
    if constexpr (rows > 1) all = _mm512_or_si512(all, Row<1>(bytes + step));
    if constexpr (rows > 2) all = _mm512_or_si512(all, Row<2>(bytes + 2 * step));
    if constexpr (rows > 3) all = _mm512_or_si512(all, Row<3>(bytes + 3 * step));
    return all;
  }
};

void Product(const IntegerWindows& job) {
  if (job.channels > 48) return Tiles<VnniUnit, 4, 6>(job);
  if (job.channels > 32) return Tiles<VnniUnit, 3, 8>(job);
  if (job.channels > 16) return Tiles<VnniUnit, 2, 8>(job);
  Tiles<VnniUnit, 1, 12>(job);
}

constexpr IntegerKernels kIntegerKernels = {.staged_signed = false,
                                            .staged_bytes = 1,
                                            .step = 4,
                                            .lanes = 16,
                                            .panel = 64,
                                            .depthwise_rows = 4,
                                            .depthwise_lanes = 16,
                                            .stage = StageUnsigned,
                                            .product = Product,
                                            .depthwise = DepthwiseRow<VnniUnit>};

}  // namespace
}  // namespace oort::OORT_ISA
