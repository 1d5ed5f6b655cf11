// SPDX-License-Identifier: MIT
// Panels of quantized weights with f16 scales as bf16 in groups of four steps, by FMLAL: a number u
// in the low byte of an f16 under 0x64 is 1024 + u, and one multiply-add gives scale * q + minimum
// in f32. Only for nibble_rows.mmla.cpp.
#pragma once

#include "cpu/assembly_neon.h"
#include "cpu/bf16_fours_neon.h"
#include "cpu/fmlal_neon.h"
#include "layers/quantized_linear/cpu/byte_lines.h"
#include "layers/quantized_linear/cpu/quantized_kernels.h"

namespace oort::OORT_ISA {

/// What the numbers of the rows of a panel begin with, each four times. In memory, since loads have
/// units of their own while copies would take turns with the arithmetic, and for all rows at once:
/// what was stored just now would have to be waited for.
class RowStarts {
 public:
  RowStarts(const PanelLayout& layout, const std::byte* group) {
    const int zero = layout.zero + (layout.type == WeightType::kInt8 ? 128 : 0);
    const float32x4_t offset = vdupq_n_f32(-1024.0f - static_cast<float>(zero));
    Unroll<kPanelRows / 4>([&](auto i) {
      const float32x4_t minimum =
          layout.has_minimum ? Halves(group, kPanelRows + 4 * i) : vdupq_n_f32(0);
      const float32x4_t start = vfmaq_f32(minimum, Halves(group, 4 * i), offset);
      Unroll<4>([&](auto r) { vst1q_f32(starts_[4 * i + r], vdupq_laneq_f32(start, r)); });
    });
  }
  [[gnu::always_inline]] float32x4_t Load(int row) const {
    float32x4_t value;
    OORT_LOAD_IN_PLACE(value, starts_[row]);
    return value;
  }

 private:
  static float32x4_t Halves(const std::byte* group, int index) {
    return vcvt_f32_f16(vld1_f16(reinterpret_cast<const float16_t*>(group) + index));
  }

  alignas(64) float starts_[kPanelRows][4];
};

/// 16 steps of the four rows of block `block`, whose scales are `scale`. They are as many as the
/// registers hold: Neoverse cores take four instructions of the same latency in a cycle, but only
/// two of different ones.
template <WeightType type, int block>
[[gnu::always_inline]] inline void StoreSixteen(const uint8_t* lines, float16x4_t scale,
                                                const RowStarts& starts, uint16_t* to,
                                                int64_t step) {
  uint8x16_t q[4];
  if constexpr (type == WeightType::kInt4) {
    Unroll<2>([&](auto i) {
      const uint8x16_t both = vld1q_u8(lines + 64 * i);
      q[2 * i] = vandq_u8(both, vdupq_n_u8(15));
      q[2 * i + 1] = vshrq_n_u8(both, 4);
    });
  } else {
    // A sign is turned to what counts from 0 on.
    const uint8x16_t turn = vdupq_n_u8(type == WeightType::kInt8 ? 0x80 : 0);
    Unroll<4>([&](auto i) { q[i] = veorq_u8(vld1q_u8(lines + 64 * i), turn); });
  }
  const uint8x16_t top = vdupq_n_u8(0x64);
  float16x8_t numbers[8];
  Unroll<4>([&](auto i) {
    numbers[2 * i] = vreinterpretq_f16_u8(vzip1q_u8(q[i], top));
    numbers[2 * i + 1] = vreinterpretq_f16_u8(vzip2q_u8(q[i], top));
  });
  float32x4_t rows[4][4];
  Unroll<4>([&](auto i) {
    const auto start = [&](int row) { return starts.Load(4 * block + row); };
    rows[i][0] = MultiplyLow<0>(start(0), numbers[2 * i], scale);
    rows[i][1] = MultiplyHigh<1>(start(1), numbers[2 * i], scale);
    rows[i][2] = MultiplyLow<2>(start(2), numbers[2 * i + 1], scale);
    rows[i][3] = MultiplyHigh<3>(start(3), numbers[2 * i + 1], scale);
  });
  Unroll<4>([&](auto i) {
    vst1q_u16(to + i * step, ToBf16(rows[i][0], rows[i][1]));
    vst1q_u16(to + i * step + 8, ToBf16(rows[i][2], rows[i][3]));
  });
}

template <WeightType type>
void UnpackHalfFoursOf(const PanelLayout& layout, const std::byte* panel, int64_t k,
                       const Bf16Target& to) {
  constexpr int64_t kSixteen = type == WeightType::kInt4 ? 128 : 256;  // bytes of 16 steps
  for (int64_t first = 0; first < k; first += layout.group, panel += layout.group_bytes()) {
    const RowStarts starts(layout, panel);
    const GroupLines<type> lines(panel + layout.head_bytes());
    Unroll<kPanelRows / 4>([&](auto block) {
      const float16x4_t scale = vld1_f16(reinterpret_cast<const float16_t*>(panel) + 4 * block);
      const uint8_t* from = reinterpret_cast<const uint8_t*>(lines.data()) + 16 * block;
      uint16_t* out = to.blocks[block] + first / 4 * to.step;
      for (int i = 0; i < layout.group; i += 16, from += kSixteen, out += 4 * to.step) {
        StoreSixteen<type, block>(from, scale, starts, out, to.step);
      }
    });
  }
}

inline void UnpackHalfFours(const PanelLayout& layout, const std::byte* panel, int64_t k,
                            const Bf16Target& to) {
  switch (layout.type) {
    case WeightType::kInt4: return UnpackHalfFoursOf<WeightType::kInt4>(layout, panel, k, to);
    case WeightType::kInt5: return UnpackHalfFoursOf<WeightType::kInt5>(layout, panel, k, to);
    default: return UnpackHalfFoursOf<WeightType::kInt8>(layout, panel, k, to);
  }
}

}  // namespace oort::OORT_ISA
