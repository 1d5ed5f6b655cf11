// SPDX-License-Identifier: MIT
// Maps floats to integers of the same order. For .cu files.
#pragma once

#include <cuda_runtime.h>

namespace oort::cuda {

/// Larger for larger numbers; 0 for -infinity and NaN, and for them alone.
__device__ inline unsigned OrderOf(float value) {
  if (!(value > -INFINITY)) return 0;
  const unsigned bits = __float_as_uint(value + 0.0f);  // -0 is 0
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

/// The number that has this order.
__device__ inline float OfOrder(unsigned order) {
  return __uint_as_float((order & 0x80000000u) != 0 ? order & 0x7fffffffu : ~order);
}

}  // namespace oort::cuda
