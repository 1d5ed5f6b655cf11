// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "layers/device_kernel.h"

namespace oort {

enum class CellKind : unsigned char { kLstm, kGru, kTanh, kRelu };

/// One step of all sequences of a batch, in f32: as CellStep, where row n of each operand is
/// `…_step` elements behind row n - 1.
struct DeviceCellStep {
  CellKind kind = CellKind::kLstm;
  const float *x = nullptr, *h = nullptr, *last = nullptr;
  float *c = nullptr, *y = nullptr;
  int64_t x_step = 0, h_step = 0, last_step = 0, y_step = 0;
  int64_t batch = 0, hidden = 0;
};
void StepCellsOnDevice(cuda::Stream&, const DeviceCellStep&) OORT_CUDA_ONLY;

/// y = x W^T + bias for rows of f32; weights are `depth` apart. The bias may be null.
struct DeviceRows {
  const float *x = nullptr, *weight = nullptr, *bias = nullptr;
  float* y = nullptr;
  int64_t rows = 0, in = 0, out = 0, x_step = 0, y_step = 0, depth = 0;
};
void MultiplyRowsOnDevice(cuda::Stream&, const DeviceRows&) OORT_CUDA_ONLY;

/// Rows of weights for MultiplyRowsOnDevice are whole pieces of 16 bytes.
constexpr int64_t DeviceRowDepth(int64_t in) { return (in + 3) / 4 * 4; }

}  // namespace oort
