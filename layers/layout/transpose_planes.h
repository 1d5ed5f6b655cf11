// SPDX-License-Identifier: MIT
// NCHW to NHWC and back on the device.
#pragma once

#include <cstdint>

#include "cuda/stream.h"
#include "oort/dtype.h"

namespace oort::cuda {

/// (batch, rows, columns) to (batch, columns, padded rows), padded with zeros, perhaps of another
/// dtype. All dtypes of one size where `from` is `to`; else among f32, f16 and bf16.
struct TransposeCall {
  const void* in = nullptr;
  void* out = nullptr;
  int64_t batch = 1, rows = 1, columns = 1;
  int64_t padded_rows = 1;
};
void TransposePlanes(const Stream& stream, const TransposeCall& call, DType from, DType to,
                     bool overlap = true);

}  // namespace oort::cuda
