// SPDX-License-Identifier: MIT
#pragma once

#include "oort/testing.h"

namespace oort::testing {

/// Weights of 8 bits in groups with a scale each.
struct ByteWeight {
  Tensor data, scale;
  int64_t group;
  ByteWeight(int64_t rows, int64_t columns, int64_t g, uint64_t seed)
      : data(RandomTensor(DType::kI8, {rows, columns}, seed, -127, 127)),
        scale(RandomTensor(DType::kF32, {rows, columns / g}, seed + 1, -0.01, 0.01)),
        group(g) {}
  double At(int64_t row, int64_t column) const {
    return static_cast<double>(data.data<int8_t>()[row * data.dim(1) + column]) *
           scale.data<float>()[row * scale.dim(1) + column / group];
  }
  int64_t rows() const { return data.dim(0); }
};

}  // namespace oort::testing
