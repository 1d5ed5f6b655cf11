// SPDX-License-Identifier: MIT
// Panels of quantized weights as bf16 in groups of four steps, the order that BFMMLA takes them in.
// A register of a panel's line holds four steps of four rows: widened, they are in that order.
// Only for dequantize.simd.cpp.
#pragma once

#include <arm_neon.h>

#include "cpu/assembly_neon.h"
#include "cpu/bf16_fours_neon.h"
#include "layers/quantized_linear/cpu/quantized_lines.h"

namespace oort::OORT_ISA {

/// The same four numbers in each of four registers, kept in memory: loads have units of their own,
/// while copies would take turns with the arithmetic.
struct FourStarts {
  alignas(16) float rows[4][4];
  explicit FourStarts(float32x4_t start) {
    Unroll<4>([&](auto r) { vst1q_f32(rows[r], vdupq_laneq_f32(start, r)); });
  }
  float32x4_t Load(int row) const {
    float32x4_t value;
    OORT_LOAD_IN_PLACE(value, rows[row]);
    return value;
  }
};

/// What numbers of four rows become: factor * (q - zero) + start.
struct FourNumbers {
  float32x4_t factor;
  FourStarts starts;
  bool minimum;
  float zero;  ///< of bytes
};

/// Numbers q in bytes, four rows of four steps, in bf16. Of 4 bits a byte in the third place under
/// 0x43 is the float 128 + q; of 8 bits one in the lowest place under 0x4b is 2^23 + q.
template <WeightType type>
inline void StoreFour(uint8x16_t q, const FourNumbers& numbers, uint16_t* to) {
  const float32x4_t factor = numbers.factor;
  float32x4_t rows[4];
  if constexpr (type == WeightType::kInt4) {
    const uint8x16_t top = vdupq_n_u8(0x43);
    const uint16x8_t low = vreinterpretq_u16_u8(vzip1q_u8(q, top));
    const uint16x8_t high = vreinterpretq_u16_u8(vzip2q_u8(q, top)), zero = vdupq_n_u16(0);
    rows[0] = vreinterpretq_f32_u16(vzip1q_u16(zero, low));
    rows[1] = vreinterpretq_f32_u16(vzip2q_u16(zero, low));
    rows[2] = vreinterpretq_f32_u16(vzip1q_u16(zero, high));
    rows[3] = vreinterpretq_f32_u16(vzip2q_u16(zero, high));
  } else {
    const uint8x16_t zero = vdupq_n_u8(0);
    const uint16x8_t low = vreinterpretq_u16_u8(vzip1q_u8(q, zero));
    const uint16x8_t high = vreinterpretq_u16_u8(vzip2q_u8(q, zero)), top = vdupq_n_u16(0x4b00);
    const float32x4_t offset = vdupq_n_f32(8388608.0f + numbers.zero);
    rows[0] = vreinterpretq_f32_u16(vzip1q_u16(low, top));
    rows[1] = vreinterpretq_f32_u16(vzip2q_u16(low, top));
    rows[2] = vreinterpretq_f32_u16(vzip1q_u16(high, top));
    rows[3] = vreinterpretq_f32_u16(vzip2q_u16(high, top));
    Unroll<4>([&](auto r) { rows[r] = vsubq_f32(rows[r], offset); });
  }
  if (type == WeightType::kInt4 || numbers.minimum) {
    Unroll<4>(
        [&](auto r) { rows[r] = vfmaq_laneq_f32(numbers.starts.Load(r), rows[r], factor, r); });
  } else {
    Unroll<4>([&](auto r) { rows[r] = vmulq_laneq_f32(rows[r], factor, r); });
  }
  vst1q_u16(to, ToBf16(rows[0], rows[1]));
  vst1q_u16(to + 8, ToBf16(rows[2], rows[3]));
}

/// Some steps of a group of four rows, of which the lines hold 16 bytes each.
template <WeightType type>
inline void UnpackFourRows(const uint8_t* lines, int64_t steps, const FourNumbers& numbers,
                           uint16_t* to, int64_t step) {
  if constexpr (type == WeightType::kInt4) {
    for (int64_t k = 0; k < steps; k += 8, lines += 64, to += 2 * step) {
      const uint8x16_t both = vld1q_u8(lines);
      StoreFour<type>(vandq_u8(both, vdupq_n_u8(15)), numbers, to);
      StoreFour<type>(vshrq_n_u8(both, 4), numbers, to + step);
    }
  } else {
    // A sign is turned to what counts from 0 on.
    const uint8x16_t turn = vdupq_n_u8(type == WeightType::kInt8 ? 0x80 : 0);
    for (int64_t k = 0; k < steps; k += 4, lines += 64, to += step) {
      StoreFour<type>(veorq_u8(vld1q_u8(lines), turn), numbers, to);
    }
  }
}

template <WeightType type>
void UnpackFoursQuantized(const PanelLayout& layout, const std::byte* panel, int64_t k0, int64_t k1,
                          const Bf16Target& to) {
  constexpr int kSteps = type == WeightType::kInt4 ? 8 : 4;
  const float zero = static_cast<float>(layout.zero + (type == WeightType::kInt8 ? 128 : 0));
  ForGroups(layout, k0, k1, [&](int64_t index, int64_t begin, int64_t end) {
    const GroupPlace group(layout, panel, index);
    const GroupLines<type> lines(group.lines);
    const uint8_t* from = reinterpret_cast<const uint8_t*>(lines.data()) + begin / kSteps * 64;
    const int64_t first = (index * layout.group + begin - k0) / 4 * to.step;
    Unroll<4>([&](auto i) {
      const GroupNumbers of(layout, group, 4 * i);
      Vec start = of.minimum;
      if constexpr (type == WeightType::kInt4) start = Fnma(of.scale, Vec(128 + zero), start);
      const FourNumbers numbers{of.scale.v, FourStarts(start.v), layout.has_minimum, zero};
      UnpackFourRows<type>(from + 16 * i, end - begin, numbers, to.blocks[i] + first, to.step);
    });
  });
}

/// Eight rows of one step as bf16.
template <WeightType type>
inline uint16x8_t EightRows(const std::byte* step, int first) {
  if constexpr (type == WeightType::kBf16) {
    return vreinterpretq_u16_u8(vld1q_u8(reinterpret_cast<const uint8_t*>(step) + 2 * first));
  } else {
    constexpr auto kLoad = type == WeightType::kF16 ? &LoadHalf : &LoadFloat;
    return ToBf16(kLoad(step, first).v, kLoad(step, first + 4).v);
  }
}

template <WeightType type>
void UnpackFoursFloat(const std::byte* panel, int64_t k0, int64_t k1, const Bf16Target& to) {
  constexpr int64_t kBytes = kPanelRows * (type == WeightType::kF32 ? 4 : 2);
  for (int64_t k = k0; k < k1; k += 4) {
    const int64_t at = (k - k0) / 4 * to.step;
    Unroll<2>([&](auto half) {
      uint16x8_t steps[4];
      Unroll<4>([&](auto j) {
        steps[j] =
            k + j < k1 ? EightRows<type>(panel + (k + j) * kBytes, 8 * half) : vdupq_n_u16(0);
      });
      const EightFours eight(steps);
      Unroll<2>([&](auto block) {
        vst1q_u16(to.blocks[2 * half + block] + at, eight.columns[2 * block]);
        vst1q_u16(to.blocks[2 * half + block] + at + 8, eight.columns[2 * block + 1]);
      });
    });
  }
}

inline void UnpackFours(const PanelLayout& layout, const std::byte* panel, int64_t k0, int64_t k1,
                        const Bf16Target& to) {
  switch (layout.type) {
    case WeightType::kF32: return UnpackFoursFloat<WeightType::kF32>(panel, k0, k1, to);
    case WeightType::kF16: return UnpackFoursFloat<WeightType::kF16>(panel, k0, k1, to);
    case WeightType::kBf16: return UnpackFoursFloat<WeightType::kBf16>(panel, k0, k1, to);
    case WeightType::kInt8:
      return UnpackFoursQuantized<WeightType::kInt8>(layout, panel, k0, k1, to);
    case WeightType::kInt6:
      return UnpackFoursQuantized<WeightType::kInt6>(layout, panel, k0, k1, to);
    case WeightType::kInt5:
      return UnpackFoursQuantized<WeightType::kInt5>(layout, panel, k0, k1, to);
    case WeightType::kInt4:
      return UnpackFoursQuantized<WeightType::kInt4>(layout, panel, k0, k1, to);
  }
}

}  // namespace oort::OORT_ISA
