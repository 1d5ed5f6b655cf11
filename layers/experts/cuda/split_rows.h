// SPDX-License-Identifier: MIT
// Rows of f32 as sums of bf16 numbers, which tensor cores multiply without an end of their range.
#pragma once

#include <cstdint>

#include "core/host_device.h"
#include "layers/quantized_linear/cuda/device_weights.h"

namespace oort::cuda {

/// Three of them are an f32 number, two have 16 of its bits.
inline constexpr int kExactPlanes = 3, kFastPlanes = 2;

/// 32 columns of a row stand together: first their largest parts, then what these leave, and so on.
/// Zeros fill rows up to whole steps of the weights.
OORT_HOST_DEVICE constexpr int64_t SplitColumns(int64_t columns) {
  return (columns + kStepColumns - 1) / kStepColumns * kStepColumns;
}
/// Numbers of a row.
OORT_HOST_DEVICE constexpr int64_t SplitRowElements(int64_t columns, int planes) {
  return SplitColumns(columns) * planes;
}
OORT_HOST_DEVICE constexpr int64_t SplitPlace(int64_t column, int plane, int planes) {
  return column / kChunkColumns * kChunkColumns * planes + plane * kChunkColumns +
         column % kChunkColumns;
}

}  // namespace oort::cuda
