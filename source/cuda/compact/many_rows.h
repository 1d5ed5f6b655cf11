// SPDX-License-Identifier: MIT
// What products of many rows need around the matrix product itself.
#pragma once

#include <cstdint>

#include "cuda/compact/device_weights.h"
#include "cuda/compact/few_rows.h"

namespace oort::cuda {

/// Weights of 8 or 4 bits as rows of bf16, `row_elements` apart.
void UnpackWeights(const Stream& stream, const DeviceWeights& weights, void* rows);

/// x (rows, columns), behind an RMS norm if gain is not null, as 16-bit rows of `padded` elements:
/// bf16, or f16 where `half`.
void CastRows(const Stream& stream, const float* x, int64_t rows, int64_t columns, int64_t padded,
              const float* gain, float epsilon, bool half, void* out);

/// y = activation(y + bias + addend), in place; bias and addend may be null.
void FinishRows(const Stream& stream, float* y, int64_t rows, int64_t columns, const float* bias,
                RowActivation activation, const float* addend);

/// y (rows, columns) from `both`, whose rows have eight columns of the gate and eight of what it
/// gates by turns, `stride` elements apart; bias lies like them.
void GateRows(const Stream& stream, const float* both, int64_t stride, int64_t rows,
              int64_t columns, const float* bias, RowActivation activation, float* y);

/// Rows of the weights as f32, times a factor. A row that is not there is NaN.
void GatherRows(const Stream& stream, const DeviceWeights& weights, int64_t table_rows,
                const int32_t* indices, int64_t count, int64_t columns, float factor, float* out);

}  // namespace oort::cuda
