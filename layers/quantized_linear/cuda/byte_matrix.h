// SPDX-License-Identifier: MIT
// Weights of eight bits on a GPU, each row with one scale, for products of bytes.
#pragma once

#include <memory>
#include <span>

#include "layers/quantized_linear/byte_rows.h"
#include "layers/quantized_linear/cuda/byte_weights.h"
#include "oort/device.h"

namespace oort::cuda {

/// One or more matrices of the same number of columns below each other, as DeviceMatrix has them:
/// parts begin at whole strips, and where `gated` every strip has eight rows of both. Thread
/// contract: immutable.
class ByteMatrix {
 public:
  /// Throws kOutOfMemory.
  ByteMatrix(std::span<const StoredMatrix> parts, bool gated, ByteKind kind, Device device);

  const ByteWeights& weights() const { return weights_; }
  size_t bytes() const { return rows_->size() + scales_->size(); }

 private:
  ByteWeights weights_;
  std::shared_ptr<Buffer> rows_, scales_;
};

}  // namespace oort::cuda
