// SPDX-License-Identifier: MIT
// Reads all weights of a checkpoint that was made of any bytes.
#pragma once

#include <string>
#include <vector>

#include "parser/checkpoint/contents.h"

namespace oort::fuzz {

/// A sum of some elements, so that reading them is not optimized away.
inline double SumOfTensors(const CheckpointContents& contents) {
  double sum = 0;
  for (const auto& [name, placed] : contents.tensors.tensors()) {
    if (placed.rank == 1) {
      const Tensor vector = contents.tensors.Vector(name);
      for (const float x : vector.span<float>()) sum += static_cast<double>(x);
      continue;
    }
    const StoredMatrix matrix = contents.tensors.Matrix(name);
    Check(matrix);
    std::vector<float> row(static_cast<size_t>(matrix.columns));
    for (int64_t i = 0; i < matrix.rows; ++i) {
      ReadRows(matrix, i, i + 1, row.data());
      sum += static_cast<double>(row.front());
    }
  }
  return sum;
}

}  // namespace oort::fuzz
