// SPDX-License-Identifier: MIT
// Kernels that do nothing but call the vector type, so that each instruction set's is tested.
#pragma once

#include <limits>

#include "cpu/kernels.h"

namespace oort {

inline constexpr float kInf = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

using UnaryKernel = void (*)(const float* x, float* y, int64_t count);
using BinaryKernel = void (*)(const float* a, const float* b, float* y, int64_t count);

struct VecMathKernels {
  UnaryKernel exp, expm1, log, log1p, tanh, sigmoid, erf, sin, cos, tan, normal_cdf, rough_silu,
      silu;
};
OORT_DECLARE_KERNELS(VecMathKernels)

struct VecOpKernels {
  int width;
  UnaryKernel abs, negate, sqrt, floor, ceil, trunc, round, is_nan, to_int;
  BinaryKernel add, subtract, multiply, divide, min, max, fast_min, fast_max, copy_sign;
  BinaryKernel equal, not_equal, less, less_equal, greater, greater_equal, logic, bits;
  void (*fma)(const float* a, const float* b, const float* c, float* fma, float* fnma);
  /// Sum, maximum and minimum of the first `width` elements.
  void (*reduce)(const float* x, float* results);
  void (*load_even)(const float* x, float* y);
  /// Shifts, wrapping sums and differences of the first `width` elements' bits.
  void (*integers)(const int32_t* x, int32_t* results);
};
OORT_DECLARE_KERNELS(VecOpKernels)

}  // namespace oort
