// SPDX-License-Identifier: MIT
// Integer kernels for NEON with dotprod: SDOT adds four products of s8 to each of 4 sums. Only for
// integer.dot.cpp.
#pragma once

#include <arm_neon.h>

#include <cstring>

#include "layers/quantize/integer_tiles.h"

namespace oort::OORT_ISA {
namespace {

/// What is made of the sums of 4 channels.
class DotFinish {
 public:
  explicit DotFinish(const IntegerEpilogue& epilogue)
      : of_(epilogue),
        low_(vdupq_n_f32(epilogue.low)),
        high_(vdupq_n_f32(epilogue.high)),
        zero_point_(vdupq_n_s32(epilogue.zero_point)) {}

  /// Of the first `count` channels from `channel` on of output `at`.
  [[gnu::always_inline]] void operator()(int32x4_t sums, int64_t at, int64_t channel,
                                         int64_t count) const {
    const size_t used = static_cast<size_t>(count < 4 ? count : 4);
    float32x4_t value = vfmaq_f32(vld1q_f32(of_.bias + channel), vcvtq_f32_s32(sums),
                                  vld1q_f32(of_.scale + channel));
    const int64_t place = at * of_.stride + channel;
    if (of_.addend != nullptr) {
      const int64_t from = at * of_.addend_stride + channel;
      uint32_t four = 0;
      std::memcpy(&four, static_cast<const uint8_t*>(of_.addend) + from, used);
      const uint8x8_t bytes = vreinterpret_u8_u32(vdup_n_u32(four));
      const int16x8_t wide = of_.addend_signed ? vmovl_s8(vreinterpret_s8_u8(bytes))
                                               : vreinterpretq_s16_u16(vmovl_u8(bytes));
      const float32x4_t addend = vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide)));
      value = vfmaq_f32(value, addend, vdupq_n_f32(of_.addend_scale));
    }
    if (of_.result == IntegerResult::kF32) {
      float results[4];
      vst1q_f32(results, value);
      std::memcpy(static_cast<float*>(of_.out) + place, results, used * sizeof(float));
      return;
    }
    // What is no number becomes the upper limit, as everywhere.
    value = vbslq_f32(vcltq_f32(value, high_), value, high_);
    value = vmaxq_f32(value, low_);
    const int32x4_t rounded = vaddq_s32(vcvtnq_s32_f32(value), zero_point_);
    const int16x4_t halves = vmovn_s32(rounded);
    const int8x8_t bytes = vmovn_s16(vcombine_s16(halves, halves));
    const uint32_t four = vget_lane_u32(vreinterpret_u32_s8(bytes), 0);
    std::memcpy(static_cast<uint8_t*>(of_.out) + place, &four, used);
  }

  template <int vectors, typename Sums>
  [[gnu::always_inline]] void Row(const Sums (&sums)[vectors], int64_t at, int64_t channel,
                                  int64_t count) const {
    Unroll<vectors>([&](auto v) { (*this)(sums[v], at, channel + v * 4, count - v * 4); });
  }

 private:
  IntegerEpilogue of_;
  float32x4_t low_, high_;
  int32x4_t zero_point_;
};

struct DotUnit {
  static constexpr int kLanes = 4, kRows = 4;
  using Number = int8_t;
  using Sums = int32x4_t;
  using Numbers = int8x16_t;
  using Finish = DotFinish;

  static Sums LoadSums(const int32_t* at) { return vld1q_s32(at); }
  static Numbers Load(const std::byte* at) { return vld1q_s8(reinterpret_cast<const int8_t*>(at)); }
  static void Store(std::byte* at, Numbers numbers) {
    vst1q_s8(reinterpret_cast<int8_t*>(at), numbers);
  }
  static uint32_t Four(const std::byte* at) {
    uint32_t four;
    std::memcpy(&four, at, sizeof four);
    return four;
  }
  static Numbers Broadcast(const std::byte* at) {
    return vreinterpretq_s8_u32(vdupq_n_u32(Four(at)));
  }
  static Sums MultiplyAdd(Sums sums, Numbers x, Numbers w) { return vdotq_s32(sums, x, w); }

  /// Four rows of four channels are a matrix of bytes, which is transposed.
  template <int rows>
  static Numbers Interleave(const std::byte* bytes, int64_t step) {
    uint32x4_t all = vdupq_n_u32(0);
    all = vsetq_lane_u32(Four(bytes), all, 0);
    if constexpr (rows > 1) all = vsetq_lane_u32(Four(bytes + step), all, 1);
    if constexpr (rows > 2) all = vsetq_lane_u32(Four(bytes + 2 * step), all, 2);
    if constexpr (rows > 3) all = vsetq_lane_u32(Four(bytes + 3 * step), all, 3);
    constexpr uint8_t kPlaces[16] = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
    return vreinterpretq_s8_u8(vqtbl1q_u8(vreinterpretq_u8_u32(all), vld1q_u8(kPlaces)));
  }
};

void Stage(const void* bytes, bool is_signed, int64_t count, void* staged) {
  if (is_signed) {
    std::memcpy(staged, bytes, static_cast<size_t>(count));
    return;
  }
  const uint8_t* from = static_cast<const uint8_t*>(bytes);
  uint8_t* to = static_cast<uint8_t*>(staged);
  for (int64_t i = 0; i < count; ++i) to[i] = from[i] ^ 0x80u;
}

void Product(const IntegerWindows& job) {
  if (job.channels > 12) return Tiles<DotUnit, 4, 6>(job);
  if (job.channels > 8) return Tiles<DotUnit, 3, 8>(job);
  if (job.channels > 4) return Tiles<DotUnit, 2, 8>(job);
  Tiles<DotUnit, 1, 8>(job);
}

constexpr IntegerKernels kIntegerKernels = {.staged_signed = true,
                                            .staged_bytes = 1,
                                            .step = 4,
                                            .lanes = 4,
                                            .panel = 16,
                                            .depthwise_rows = 4,
                                            .depthwise_lanes = 4,
                                            .stage = Stage,
                                            .product = Product,
                                            .depthwise = DepthwiseRow<DotUnit>};

}  // namespace
}  // namespace oort::OORT_ISA
