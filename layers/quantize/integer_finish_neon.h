// SPDX-License-Identifier: MIT
// What NEON's integer kernels make of their sums. Conversions between integers and floats are the
// scarce instructions of these processors (one a cycle on a Neoverse V1, where additions are four),
// so numbers of few bits are converted by adding 1.5 * 2^23, whose last bit is worth one. Only for
// integer.dot.cpp and integer.mmla.cpp.
#pragma once

#include <arm_neon.h>

#include <cstring>

#include "cpu/unroll.h"
#include "layers/quantize/integer_kernels.h"

/// For the bodies of unrolled loops, which GCC 12 else calls where there are many of them.
#define OORT_INLINED __attribute__((always_inline))

namespace oort::OORT_ISA {
namespace {

/// What is asked of a kernel, so that the frequent kinds have no branches in their loops: bytes of
/// all channels of a tile, `Plus` with an addend, of sums that are small (IntegerEpilogue).
enum class FinishKind : unsigned char { kAny, kBytes, kBytesPlus, kSmallBytes, kSmallBytesPlus };

inline FinishKind KindOf(const IntegerEpilogue& epilogue, bool all_channels) {
  if (!all_channels || epilogue.result == IntegerResult::kF32) return FinishKind::kAny;
  if (epilogue.addend == nullptr) {
    return epilogue.small_sums ? FinishKind::kSmallBytes : FinishKind::kBytes;
  }
  return epilogue.small_sums ? FinishKind::kSmallBytesPlus : FinishKind::kBytesPlus;
}

template <FinishKind kind>
class NeonFinish {
 public:
  explicit NeonFinish(const IntegerEpilogue& epilogue)
      : of_(epilogue),
        low_(vdupq_n_f32(epilogue.low)),
        high_(vdupq_n_f32(epilogue.high)),
        zero_point_(vdupq_n_u8(static_cast<uint8_t>(epilogue.zero_point))) {}

  /// Of the first `count` channels from `channel` on of output `at`.
  template <int vectors>
  [[gnu::always_inline]] void Row(const int32x4_t (&sums)[vectors], int64_t at, int64_t channel,
                                  int64_t count) const {
    float32x4_t values[vectors];
    Unroll<vectors>([&](auto v) OORT_INLINED {
      const int64_t c = channel + 4 * v;
      values[v] = vfmaq_f32(vld1q_f32(of_.bias + c), ToFloat(sums[v]), vld1q_f32(of_.scale + c));
    });
    constexpr size_t kAll = 4 * vectors;
    const size_t used = kWhole || count >= 4 * vectors ? kAll : static_cast<size_t>(count);
    if (kPlus || (!kWhole && of_.addend != nullptr)) {
      AddTo(values, at * of_.addend_stride + channel, used);
    }
    const int64_t place = at * of_.stride + channel;
    if (!kWhole && of_.result == IntegerResult::kF32) {
      StoreFloats(values, used, static_cast<float*>(of_.out) + place);
    } else {
      StoreBytes(values, used, static_cast<uint8_t*>(of_.out) + place);
    }
  }

 private:
  static constexpr bool kWhole = kind != FinishKind::kAny;
  static constexpr bool kPlus =
      kind == FinishKind::kBytesPlus || kind == FinishKind::kSmallBytesPlus;
  static constexpr bool kSmall =
      kind == FinishKind::kSmallBytes || kind == FinishKind::kSmallBytesPlus;
  /// 1.5 * 2^23.
  static float32x4_t Magic() { return vdupq_n_f32(12582912.0f); }

  [[gnu::always_inline]] float32x4_t ToFloat(int32x4_t sums) const {
    if (kSmall || (!kWhole && of_.small_sums)) {
      return vsubq_f32(vreinterpretq_f32_s32(sums), Magic());
    }
    return vcvtq_f32_s32(sums);
  }

  /// `used` numbers of all that are at `from`; where it is all of them, their size is a constant.
  template <size_t size>
  [[gnu::always_inline]] static void Copy(void* to, const void* from, size_t used) {
    if (kWhole || used == size) {
      std::memcpy(to, from, size);
    } else {
      std::memcpy(to, from, used);
    }
  }

  template <int vectors>
  [[gnu::always_inline]] void AddTo(float32x4_t (&values)[vectors], int64_t from,
                                    size_t used) const {
    uint8x16_t all = vdupq_n_u8(0);
    const uint8_t* addend = static_cast<const uint8_t*>(of_.addend) + from;
    if (kWhole && vectors == 4) {
      all = vld1q_u8(addend);
    } else {
      Copy<4 * vectors>(&all, addend, used);
    }
    // A byte below 0x4b000000 is 2^23 and that byte.
    all = veorq_u8(all, vdupq_n_u8(of_.addend_signed ? 0x80 : 0));
    const float32x4_t zero = vdupq_n_f32(of_.addend_signed ? 8388608.0f + 128.0f : 8388608.0f);
    const float32x4_t scale = vdupq_n_f32(of_.addend_scale);
    const uint16x8_t low = vreinterpretq_u16_u8(vzip1q_u8(all, vdupq_n_u8(0)));
    const uint16x8_t high = vreinterpretq_u16_u8(vzip2q_u8(all, vdupq_n_u8(0)));
    const uint16x8_t exponent = vdupq_n_u16(0x4b00);
    Unroll<vectors>([&](auto v) OORT_INLINED {
      const uint16x8_t half = v < 2 ? low : high;
      const uint16x8_t four = v % 2 == 0 ? vzip1q_u16(half, exponent) : vzip2q_u16(half, exponent);
      values[v] = vfmaq_f32(values[v], vsubq_f32(vreinterpretq_f32_u16(four), zero), scale);
    });
  }

  template <int vectors>
  static void StoreFloats(const float32x4_t (&values)[vectors], size_t used, float* out) {
    float results[4 * vectors];
    Unroll<vectors>([&](auto v) OORT_INLINED { vst1q_f32(results + 4 * v, values[v]); });
    Copy<4 * vectors * sizeof(float)>(out, results, used * sizeof(float));
  }

  /// The limits keep numbers so small that the last bits of the sum with 1.5 * 2^23 are the
  /// integer, rounded half to even. What is no number becomes the upper limit, as everywhere.
  template <int vectors>
  [[gnu::always_inline]] void StoreBytes(const float32x4_t (&values)[vectors], size_t used,
                                         uint8_t* out) const {
    uint16x8_t integers[4];
    Unroll<4>([&](auto v) OORT_INLINED {
      constexpr int kFrom = v < vectors ? int{v} : vectors - 1;
      const float32x4_t limited = vmaxq_f32(vminnmq_f32(values[kFrom], high_), low_);
      integers[v] = vreinterpretq_u16_f32(vaddq_f32(limited, Magic()));
    });
    const uint8x16_t low = vreinterpretq_u8_u16(vuzp1q_u16(integers[0], integers[1]));
    const uint8x16_t high = vreinterpretq_u8_u16(vuzp1q_u16(integers[2], integers[3]));
    const uint8x16_t bytes = vaddq_u8(vuzp1q_u8(low, high), zero_point_);
    if (kWhole && vectors == 4) {
      vst1q_u8(out, bytes);
    } else {
      Copy<4 * vectors>(out, &bytes, used);
    }
  }

  IntegerEpilogue of_;
  float32x4_t low_, high_;
  uint8x16_t zero_point_;
};

}  // namespace
}  // namespace oort::OORT_ISA
