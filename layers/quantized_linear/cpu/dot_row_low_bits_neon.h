// SPDX-License-Identifier: MIT
// One row of bytes times a panel of 4 to 6 bits, for what dot_row_neon.h has no assembly for: 5 and
// 6 bits, and scales that are bytes. Weights stay in registers, where DotRows would put them
// together in memory. The sums are those of DotRows, bit by bit. Only for quantized_gemv.dot.cpp.
#pragma once

#include <arm_neon.h>

#include "cpu/assembly_neon.h"
#include "cpu/unroll.h"
#include "layers/quantized_linear/cpu/byte_lines.h"
#include "layers/quantized_linear/cpu/dot_row.h"
#include "layers/quantized_linear/cpu/group_numbers.h"

namespace oort::OORT_ISA {

/// Four rows of a group: all registers of four steps each, in their order.
template <WeightType type, int group>
struct FourRows {
  static constexpr int kRegisters = group / 4;
  uint8x16_t w[kRegisters];

  [[gnu::always_inline]] explicit FourRows(const uint8_t* lines) {
    const auto line = [&](int i) { return Load(lines + 64 * i); };
    if constexpr (type == WeightType::kInt4) {
      Unroll<kRegisters / 2>([&](auto i) {
        const uint8x16_t both = line(i);
        w[2 * i] = vandq_u8(both, vdupq_n_u8(15));
        w[2 * i + 1] = vshrq_n_u8(both, 4);
      });
    } else if constexpr (type == WeightType::kInt5) {
      const uint8x16_t a = line(0), b = line(1), c = line(2), d = line(3), e = line(4);
      const uint8x16_t mask = vdupq_n_u8(31);
      w[0] = vandq_u8(a, mask);
      w[1] = vandq_u8(b, mask);
      w[2] = vandq_u8(c, mask);
      w[3] = vandq_u8(d, mask);
      w[4] = vandq_u8(e, mask);
      w[5] = vshrq_n_u8(vsriq_n_u8(a, b, 3), 3);
      w[6] = vshrq_n_u8(vsriq_n_u8(c, d, 3), 3);
      // The sixth bits of b and d, one beside the other at the top.
      const uint8x16_t rest = vsriq_n_u8(vshlq_n_u8(b, 2), vshlq_n_u8(d, 2), 1);
      w[7] = vshrq_n_u8(vsriq_n_u8(e, rest, 3), 3);
    } else {
      static_assert(type == WeightType::kInt6);
      const uint8x16_t a = line(0), b = line(1), c = line(2), mask = vdupq_n_u8(63);
      w[0] = vandq_u8(a, mask);
      w[1] = vandq_u8(b, mask);
      w[2] = vandq_u8(c, mask);
      w[3] = vshrq_n_u8(vsriq_n_u8(vsriq_n_u8(a, b, 2), c, 4), 2);
    }
  }

  /// Of 5 bits in place: GCC 12 would load all rows before it takes any apart, and have no
  /// registers left.
  [[gnu::always_inline]] static uint8x16_t Load(const uint8_t* from) {
    if constexpr (type != WeightType::kInt5) return vld1q_u8(from);
    uint8x16_t value;
    OORT_LOAD_IN_PLACE(value, *reinterpret_cast<const uint8_t(*)[16]>(from));
    return value;
  }

  /// sum + the products with the bytes of x.
  [[gnu::always_inline]] int32x4_t Dot(const int8x16_t (&x)[group / 16], int32x4_t sum) const {
    Unroll<kRegisters>(
        [&](auto i) { sum = vdotq_laneq_s32(sum, vreinterpretq_s8_u8(w[i]), x[i / 4], i % 4); });
    return sum;
  }
};

/// Scales or minimums of a group as f32.
template <ScaleType type>
struct SixteenNumbers {
  float32x4_t v[4];

  [[gnu::always_inline]] explicit SixteenNumbers(const std::byte* from) {
    if constexpr (type == ScaleType::kF16) {
      Unroll<4>([&](auto i) { v[i] = LoadHalf(from, 4 * i).v; });
    } else if constexpr (type == ScaleType::kByte) {
      const uint8x16_t bytes = vld1q_u8(reinterpret_cast<const uint8_t*>(from));
      const uint16x8_t low = vmovl_u8(vget_low_u8(bytes)), high = vmovl_high_u8(bytes);
      v[0] = vcvtq_f32_u32(vmovl_u16(vget_low_u16(low)));
      v[1] = vcvtq_f32_u32(vmovl_high_u16(low));
      v[2] = vcvtq_f32_u32(vmovl_u16(vget_low_u16(high)));
      v[3] = vcvtq_f32_u32(vmovl_high_u16(high));
    } else {
      const int8x16_t bytes = vld1q_s8(reinterpret_cast<const int8_t*>(from));
      const int16x8_t low = vmovl_s8(vget_low_s8(bytes)), high = vmovl_high_s8(bytes);
      v[0] = vcvtq_f32_s32(vmovl_s16(vget_low_s16(low)));
      v[1] = vcvtq_f32_s32(vmovl_high_s16(low));
      v[2] = vcvtq_f32_s32(vmovl_s16(vget_low_s16(high)));
      v[3] = vcvtq_f32_s32(vmovl_high_s16(high));
    }
  }
};

/// Groups of one piece.
template <WeightType type, bool minimums, ScaleType scales, int group>
void DotRowLowBits(const DotRowX& x, const PanelLayout& layout, const std::byte* panel,
                   const std::byte* ahead, float* y) {
  constexpr int kHead = kPanelRows * RowScales<scales>::kBytes * (minimums ? 2 : 1);
  constexpr int kBytes = type == WeightType::kInt4 ? 4 : type == WeightType::kInt5 ? 5 : 6;
  constexpr int kGroupBytes = kHead + group * kPanelRows * kBytes / 8;
  constexpr bool kCounts = RowScales<scales>::kCounts;
  float32x4_t totals[4];
  Unroll<4>([&](auto i) { totals[i] = vdupq_n_f32(0); });
  RowScales<scales> steps[4];
  const std::byte* at = panel;
  const int64_t span = kCounts ? layout.span : x.groups;
  const int zero = -layout.zero;
  for (int64_t first = 0; first < x.groups; first += span) {
    Unroll<4>([&](auto i) { steps[i] = {at, 4 * i}; });
    for (int64_t line = 0; line < layout.steps_bytes(); line += 64) {
      __builtin_prefetch(ahead + (at - panel) + line, 0, 1);
    }
    at += layout.steps_bytes();
    for (int64_t g = first; g < first + span; ++g, at += kGroupBytes) {
      for (int line = 0; line < kGroupBytes; line += 64) {
        __builtin_prefetch(ahead + (at - panel) + line, 0, 1);
      }
      const uint8_t* lines = reinterpret_cast<const uint8_t*>(at + kHead);
      int8x16_t bytes[group / 16];
      const auto load = [&](const int8_t* from) {
        Unroll<group / 16>([&](auto i) { bytes[i] = vld1q_s8(from + group * g + 16 * i); });
      };
      int32x4_t sums[4];
      const int32x4_t start = vdupq_n_s32(zero * x.sum[g]);
      load(x.q);
      if (x.is_fine[g] == 0) {
        Unroll<4>(
            [&](auto i) { sums[i] = FourRows<type, group>(lines + 16 * i).Dot(bytes, start); });
      } else {
        Unroll<4>([&](auto i) {
          sums[i] = FourRows<type, group>(lines + 16 * i).Dot(bytes, vdupq_n_s32(0));
        });
        load(x.fine);
        Unroll<4>([&](auto i) {
          const int32x4_t fine = FourRows<type, group>(lines + 16 * i).Dot(bytes, start);
          sums[i] = vmlaq_n_s32(fine, sums[i], kFineSteps);
        });
      }
      if constexpr (minimums) {
        SixteenNumbers<scales> minimum(at + kHead / 2);
        Unroll<4>([&](auto i) {
          if constexpr (kCounts) {
            minimum.v[i] =
                vfmaq_f32(steps[i].minimum_start.v, minimum.v[i], steps[i].minimum_step.v);
          }
          totals[i] = vfmaq_n_f32(totals[i], minimum.v[i], x.offset[g]);
        });
      }
      SixteenNumbers<scales> scale(at);
      Unroll<4>([&](auto i) {
        if constexpr (kCounts) scale.v[i] = vmulq_f32(scale.v[i], steps[i].scale_step.v);
        const float32x4_t partial = vmulq_n_f32(vcvtq_f32_s32(sums[i]), x.scale[g]);
        totals[i] = vfmaq_f32(totals[i], partial, scale.v[i]);
      });
    }
  }
  Unroll<4>([&](auto i) { vst1q_f32(y + 4 * i, totals[i]); });
}

}  // namespace oort::OORT_ISA
