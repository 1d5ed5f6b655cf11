// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "layers/quantized_linear/byte_rows.h"

namespace oort::cuda {

/// A matrix of bytes in the memory of a GPU, for kernels: row by row, in strips of 16 rows. Rows
/// that fill the last strip and bytes that fill rows are zeros.
struct ByteWeights {
  ByteKind kind = ByteKind::kInt8;
  const uint8_t* data = nullptr;
  const float* scales = nullptr;  ///< of rows
  int strips = 0;
  int row_bytes = 0;  ///< from row to row: whole steps of 64
};

}  // namespace oort::cuda
