// SPDX-License-Identifier: MIT
// The vectors of kernels that compute in the type that they store: f32, or f16 where the processor
// has its arithmetic. Such a kernel is a file `something.lanes.cpp`, written over Lanes and
// Element, with a table that is a template over the element:
//     template <typename T> struct ReluKernelsOf { void (*relu)(const T* x, T* y, int64_t count);
//     }; OORT_DECLARE_LANES_KERNELS(ReluKernels)    // declares: ReluKernelsFor<float>(Isa), <Half>
//     …
//     OORT_DEFINE_LANES_KERNELS(ReluKernels, {.relu = OORT_ISA::Relu})
// WideLanes are as many lanes of f32, for long sums: Widen(Lanes) and Narrow(WideLanes).
// AtLeast and AtMost are Max and Min with limits that are numbers. At most kMostSteps products are
// added up one after another.
// A header declares with cpu/lanes_kernels.h; this one is for the kernels alone.
#pragma once

#include "cpu/activation_epilogue.h"
#include "cpu/lanes_kernels.h"

#if defined(OORT_UNIT_neon_f16) || defined(OORT_UNIT_avx512_f16)
#include "cpu/activation_f16.h"

namespace oort::OORT_ISA {
using Lanes = HalfVec;
using Element = Half;
using WideLanes = WideHalfVec;
/// The most products that f16 adds one after another. Longer sums are cut into such parts, which
/// are then added: a few hundred have a third of the error of as many thousand.
inline constexpr int64_t kMostSteps = 256;
/// Activates rows of results in place.
template <int vectors>
inline void ActivateTile(const ActivationSpec& spec, Half* x, int64_t stride, int rows,
                         int columns) {
  ActivateRows(spec, x, stride, rows, columns);
}
}  // namespace oort::OORT_ISA

#else

namespace oort::OORT_ISA {
using Lanes = Vec;
using Element = float;
using WideLanes = Vec;
inline constexpr int64_t kMostSteps = INT64_MAX;
template <int vectors>
inline void ActivateTile(const ActivationSpec& spec, float* x, int64_t stride, int rows,
                         int columns) {
  ActivateBlock<vectors>(spec, {rows, columns, x, stride}, ActivationSource{x, stride});
}
inline Vec Widen(Vec x) { return x; }
inline Vec Narrow(Vec x) { return x; }
inline Vec AtLeast(Vec x, Vec low) { return FastMax(low, x); }
inline Vec AtMost(Vec x, Vec high) { return FastMin(high, x); }
}  // namespace oort::OORT_ISA

#endif
