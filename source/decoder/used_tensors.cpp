// SPDX-License-Identifier: MIT
#include "decoder/used_tensors.h"

#include "core/problems.h"
#include "oort/error.h"

namespace oort {

void UsedTensors::Refuse(const std::string& name, const PlacedTensor& placed, int64_t rows,
                         int64_t columns) {
  throw Error(ErrorCode::kInvalidModel, Quote(name) + " should be of (" + std::to_string(rows) +
                                            "," + std::to_string(columns) + "), but is of " +
                                            placed.ShapeText());
}

const PlacedTensor& UsedTensors::Require(const std::string& name, int rank, int64_t rows,
                                         int64_t columns) {
  const PlacedTensor* placed = table_.Find(name);
  if (placed == nullptr) throw Error(ErrorCode::kInvalidModel, Quote(name) + " is missing");
  if (placed->rank != rank || placed->rows != rows || placed->columns != columns) {
    Refuse(name, *placed, rows, columns);
  }
  used_.insert(name);
  return *placed;
}

StoredMatrix UsedTensors::Matrix(const std::string& name, int64_t rows, int64_t columns) {
  Require(name + ".weight", 2, rows, columns);
  return table_.Matrix(name + ".weight");
}

Tensor UsedTensors::Vector(const std::string& name, int64_t size) {
  Require(name, 1, 1, size);
  return table_.Vector(name);
}

Tensor UsedTensors::Floats(const std::string& name, int64_t rows, int64_t columns) {
  const StoredMatrix matrix = Matrix(name, rows, columns);
  if (matrix.format == WeightFormat::kF32) return matrix.data;
  Tensor floats(DType::kF32, {rows, columns});
  ReadRows(matrix, 0, rows, floats.data<float>());
  return floats;
}

}  // namespace oort
