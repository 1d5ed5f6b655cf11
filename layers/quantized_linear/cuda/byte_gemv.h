// SPDX-License-Identifier: MIT
// Products of a few rows with weights of eight bits, each row of which has one scale.
#pragma once

#include "layers/quantized_linear/cuda/byte_weights.h"
#include "layers/quantized_linear/cuda/gemv.h"

namespace oort::cuda {

/// Most rows of x of one launch.
inline constexpr int kByteGemvRows = 8;

struct ByteGemv {
  GemvProduct product;  ///< all but weights, x and norm
  ByteWeights weights;
  const void* x = nullptr;         ///< (rows, weights.row_bytes) of f16, filled up with zeros
  const float* factors = nullptr;  ///< of rows of x
};

/// `x` may be what the kernel in front of it still writes.
void RunByteGemv(const Stream& stream, const ByteGemv& gemv);

}  // namespace oort::cuda
