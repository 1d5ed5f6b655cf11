// SPDX-License-Identifier: MIT
// Lanes of f16 with the operations of cpu/vec.h that kernels over Lanes use (cpu/lanes.h).
// Only for *.f16.cpp and *.lanes.cpp.
#pragma once

#include "cpu/vec.h"
#include "oort/dtype.h"

#if defined(OORT_ISA_neon)
#include "cpu/vec_f16_neon.h"
#else
#include "cpu/vec_f16_avx512.h"
#endif

// clang-format off: one operation a line
namespace oort::OORT_ISA {

/// All lanes in f32.
struct WideHalfVec {
  Vec low, high;
  WideHalfVec() = default;
  WideHalfVec(Vec l, Vec h) : low(l), high(h) {}
  WideHalfVec(float value) : low(value), high(value) {}  // NOLINT: implicit on purpose
};
inline WideHalfVec operator+(const WideHalfVec& a, const WideHalfVec& b) {
  return {a.low + b.low, a.high + b.high};
}
inline WideHalfVec operator/(const WideHalfVec& a, const WideHalfVec& b) {
  return {a.low / b.low, a.high / b.high};
}
inline WideHalfVec Widen(HalfVec a) { return {Low(a), High(a)}; }
inline HalfVec Narrow(const WideHalfVec& a) { return Narrow(a.low, a.high); }

}  // namespace oort::OORT_ISA
