// SPDX-License-Identifier: MIT
// Numbers in the order that BFMMLA takes them in: four steps of a row or column side by side.
#pragma once

#include <arm_neon.h>

#include "cpu/unroll.h"

namespace oort::OORT_ISA {

/// Four numbers to bf16. The addition rounds half away from zero: BFCVTN would be exact for ties
/// and is four times slower.
inline uint16x4_t ToBf16(float32x4_t values) {
  return vaddhn_u32(vreinterpretq_u32_f32(values), vdupq_n_u32(0x8000));
}
inline uint16x8_t ToBf16(float32x4_t low, float32x4_t high) {
  return vaddhn_high_u32(ToBf16(low), vreinterpretq_u32_f32(high), vdupq_n_u32(0x8000));
}

/// Four steps of eight columns, two columns in each register.
struct EightFours {
  uint16x8_t columns[4];
  [[gnu::always_inline]] explicit EightFours(const uint16x8_t (&steps)[4]) {
    const auto even = vzipq_u16(steps[0], steps[2]), odd = vzipq_u16(steps[1], steps[3]);
    Unroll<2>([&](auto half) {
      const auto fours = vzipq_u16(even.val[half], odd.val[half]);
      columns[2 * half] = fours.val[0];
      columns[2 * half + 1] = fours.val[1];
    });
  }
};

}  // namespace oort::OORT_ISA
