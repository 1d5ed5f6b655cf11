// SPDX-License-Identifier: MIT
// Four numbers of f16 times one, added up in f32. Only for *.mmla.cpp.
#pragma once

#include <arm_neon.h>

namespace oort::OORT_ISA {

// Lanes are those of v0 to v15, since the instruction has no place for others. clang before 15
// takes them from any register all the same, and multiplies by what stands in another one.
#if defined(__clang_major__) && __clang_major__ < 15
#define OORT_FMLAL(name)                                             \
  asm(name " %0.4s, %1.4h, %2.h[%3]"                                 \
      : "+w"(sum)                                                    \
      : "w"(eight), "x"(vcombine_f16(factors, factors)), "i"(lane)); \
  return sum
#endif

/// sum + the lower four of `eight` times one of the factors.
template <int lane>
[[gnu::always_inline]] inline float32x4_t MultiplyLow(float32x4_t sum, float16x8_t eight,
                                                      float16x4_t factors) {
#if defined(OORT_FMLAL)
  OORT_FMLAL("fmlal");
#else
  return vfmlalq_lane_low_f16(sum, eight, factors, lane);
#endif
}

/// The same of the upper four.
template <int lane>
[[gnu::always_inline]] inline float32x4_t MultiplyHigh(float32x4_t sum, float16x8_t eight,
                                                       float16x4_t factors) {
#if defined(OORT_FMLAL)
  OORT_FMLAL("fmlal2");
#else
  return vfmlalq_lane_high_f16(sum, eight, factors, lane);
#endif
}

#undef OORT_FMLAL

}  // namespace oort::OORT_ISA
