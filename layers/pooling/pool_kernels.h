// SPDX-License-Identifier: MIT
// Pooling is separable: first the rows under a window are folded into one row, then the windows
// along that row. Each step is one pass over contiguous f32.
#pragma once

#include "cpu/kernels.h"

namespace oort {

/// The rows under one output row: `depth` times `height` of them, `width` elements each.
struct PoolRows {
  const float* first;
  int64_t depth, depth_step;
  int64_t height, height_step;
  int64_t width;
};

struct PoolKernels {
  /// row[x] = max (sum) of all rows at x; -inf (0) where there is no row.
  void (*max_rows)(const PoolRows& rows, float* row);
  void (*sum_rows)(const PoolRows& rows, float* row);
  /// out[i] = max (sum) over j < kernel of row[i * stride + j * dilation].
  void (*max_windows)(const float* row, int64_t kernel, int64_t stride, int64_t dilation,
                      float* out, int64_t count);
  void (*sum_windows)(const float* row, int64_t kernel, int64_t stride, int64_t dilation,
                      float* out, int64_t count);
  /// out[i] /= scale * divisors[i].
  void (*divide)(float* out, const float* divisors, float scale, int64_t count);
};
OORT_DECLARE_KERNELS(PoolKernels)

}  // namespace oort
