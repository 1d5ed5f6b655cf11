// SPDX-License-Identifier: MIT
// What products of many rows need around the matrix product itself.
#pragma once

#include <cstdint>

#include "cuda/compact/device_weights.h"
#include "cuda/compact/few_rows.h"

namespace oort::cuda {

/// Weights of 8 or 4 bits as rows of f16 or bf16 (MultipliesF16), `row_elements` apart.
void UnpackWeights(const Stream& stream, const DeviceWeights& weights, void* rows);

/// x (rows, columns), behind an RMS norm if gain is not null, as 16-bit rows of `padded` elements:
/// bf16, or f16 where `half`. Where `factors` is not null, rows come in units of a power of two
/// that their largest number fits into; factors gets the unit of each.
void CastRows(const Stream& stream, const float* x, int64_t rows, int64_t columns, int64_t padded,
              const float* gain, float epsilon, bool half, void* out, float* factors);

/// Results of a product (splits, rows, width), to be summed up and to meet what is behind them.
struct RowSums {
  const float* sums = nullptr;
  int splits = 1;
  int64_t rows = 0, width = 0;
  const float* factors = nullptr;  ///< of rows, from CastRows, or null
  const float* bias = nullptr;     ///< of columns, or null
  RowActivation activation = RowActivation::kNone;
};

/// y = activation(sums * factor + bias + addend); y may be the sums of the first split. The addend
/// may be null.
void FinishRows(const Stream& stream, const RowSums& sums, const float* addend, float* y);

/// y (rows, columns) from rows that have eight columns of the gate and eight of what it gates by
/// turns.
void GateRows(const Stream& stream, const RowSums& both, int64_t columns, float* y);

/// Rows of the weights as f32, times a factor. A row that is not there is NaN.
void GatherRows(const Stream& stream, const DeviceWeights& weights, int64_t table_rows,
                const int32_t* indices, int64_t count, int64_t columns, float factor, float* out);

}  // namespace oort::cuda
