// SPDX-License-Identifier: MIT
#pragma once

#include "cpu/kernels.h"

namespace oort {

struct ResizeKernels {
  /// out[i] = sum over t of weights[t] * rows[t][i]
  void (*blend_rows)(const float* const* rows, const float* weights, int taps, float* out,
                     int64_t count);
  /// out[i] = sum over t of weights[t * count + i] * row[index[t * count + i]]
  void (*blend_columns)(const float* row, const int64_t* index, const float* weights, int taps,
                        float* out, int64_t count);
};
OORT_DECLARE_KERNELS(ResizeKernels)

}  // namespace oort
