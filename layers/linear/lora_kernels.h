// SPDX-License-Identifier: MIT
#pragma once

#include "cpu/kernels.h"

namespace oort {

struct LoraKernels {
  /// The sum of a[i] * b[i].
  float (*dot)(const float* a, const float* b, int64_t count);
  /// out[i] += the sum over r of factors[r] * rows[r * stride + i], in the order of r.
  void (*add_rows)(const float* factors, int64_t factor_count, const float* rows, int64_t stride,
                   float* out, int64_t count);
};
OORT_DECLARE_KERNELS(LoraKernels)

}  // namespace oort
