// SPDX-License-Identifier: MIT
// Rows that lie apart in memory, put side by side: how images in NHWC
// become panels of a matrix product (cpu/gemm.h).
#pragma once

#include <cstdint>

#include "cpu/kernels.h"

namespace oort {

struct InterleaveKernels {
  /// panel[k * width + i] = rows[i][k] for k in [0, depth) and i in [0, count); zeros for the i in
  /// [count, width).
  void (*rows)(const float* const* rows, int count, int width, int64_t depth, float* panel);
};
OORT_DECLARE_KERNELS(InterleaveKernels)

}  // namespace oort
