// SPDX-License-Identifier: MIT
// What products of many rows need around the matrix product itself.
#pragma once

#include <cstdint>

#include "layers/quantized_linear/cuda/device_weights.h"
#include "layers/quantized_linear/cuda/gemv.h"
#include "layers/quantized_linear/table_part.h"

namespace oort::cuda {

/// Weights of 8 or 4 bits as rows of f16 or bf16 (MultipliesF16), `row_elements` apart.
void UnpackWeights(const Stream& stream, const DeviceWeights& weights, void* rows);

/// The same as two f16 each, in units of `weights.unit`: rows of 2 * row_elements, what f16 leaves
/// of the weights first and the weights behind.
void UnpackInHalves(const Stream& stream, const DeviceWeights& weights, void* rows);

/// Weights of 8 bits as rows of i8, `row_elements` apart, without their scales.
void UnpackBytes(const Stream& stream, const DeviceWeights& weights, void* rows);

/// What rows of f32 become. Rows of bytes have units of their own (byte_rows.h).
enum class RowNumbers : unsigned char { kBf16, kF16, kInt8, kFp8 };

struct RowCast {
  const float* x = nullptr;  ///< (rows, columns)
  int64_t rows = 0, columns = 0;
  int64_t padded = 0;           ///< elements of a row that is written; zeros fill it
  const float* gain = nullptr;  ///< of an RMS norm that comes first, or null
  float epsilon = 0;
  RowNumbers numbers = RowNumbers::kBf16;
  bool in_halves = false;  ///< behind each row stands what the numbers leave: 2 * padded in all
  bool for_tiles = false;  ///< columns in the order of unpacked tiles (packed_tiles.h)
};

/// Where `factors` is not null, rows come in units of a power of two that their largest number fits
/// into; factors gets the unit of each. Rows of bytes need it.
void CastRows(const Stream& stream, const RowCast& cast, void* out, float* factors);

/// Results of a product (splits, rows, width), to be summed up and to meet what is behind them.
struct RowSums {
  const float* sums = nullptr;
  int splits = 1;
  int64_t rows = 0, width = 0;
  const float* factors = nullptr;  ///< of rows, from CastRows, or null
  const float* scales = nullptr;   ///< of columns, or null
  bool whole = false;              ///< sums are i32, in one split
  const float* bias = nullptr;     ///< of columns, or null
  Activation activation = Activation::kNone;
};

/// y = activation(sums * factor * scale + bias + addend); y may be the sums of the first split. The
/// addend may be null.
void FinishRows(const Stream& stream, const RowSums& sums, const float* addend, float* y);

/// Results that stand side by side in the rows of one product, each from a whole strip on.
struct RowParts {
  int count = 1;
  const float* addend = nullptr;  ///< of the first, or null
  float* y[kMostProducts] = {};   ///< (rows, width[i])
  int64_t width[kMostProducts] = {};
};
/// The same, where each part gets its columns of the rows.
void SplitRows(const Stream& stream, const RowSums& sums, const RowParts& parts);

/// y (rows, columns) from rows that have eight columns of the gate and eight of what it gates by
/// turns.
void GateRows(const Stream& stream, const RowSums& both, int64_t columns, float* y);

/// Rows of the weights as f32, times a factor. A row that is in no part of the table is NaN, one of
/// another part is zeros.
void GatherRows(const Stream& stream, const DeviceWeights& weights, const TablePart& part,
                const int32_t* indices, int64_t count, int64_t columns, float factor, float* out);

}  // namespace oort::cuda
