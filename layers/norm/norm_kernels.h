// SPDX-License-Identifier: MIT
#pragma once

#include "cpu/kernels.h"

namespace oort {

/// (x - center) * scale + shift. The mean is subtracted first, because x * scale + (shift - center
/// * scale) would cancel digits where the mean is large.
struct Affine {
  float center, scale, shift;
};

// In all of these y may be x.
struct NormKernels {
  /// y = affine(x)
  void (*apply)(const float* x, float* y, int64_t count, Affine affine);
  /// y[i] = (x[i] - center[i]) * scale[i] + shift[i]
  void (*apply_each)(const float* x, float* y, int64_t count, const float* center,
                     const float* scale, const float* shift);
  /// y[i] = affine(x[i]) * weight[i] + bias[i]; either may be null.
  void (*apply_weighted)(const float* x, float* y, int64_t count, Affine affine,
                         const float* weight, const float* bias);
  /// y = x / divisor
  void (*divide)(const float* x, float* y, int64_t count, float divisor);
  /// y[i] = x[i] / divisors[i]
  void (*divide_each)(const float* x, float* y, int64_t count, const float* divisors);
};
OORT_DECLARE_KERNELS(NormKernels)

}  // namespace oort
