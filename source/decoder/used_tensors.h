// SPDX-License-Identifier: MIT
// Tensors of a file by name, each with the shape that it must have; what was asked for is kept.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "parser/checkpoint/tensor_table.h"

namespace oort {

class UsedTensors {
 public:
  explicit UsedTensors(const TensorTable& table) : table_(table) {}

  bool Has(const std::string& name) const { return table_.Find(name) != nullptr; }
  /// These throw kInvalidModel where a tensor is missing or has another shape.
  const PlacedTensor& Require(const std::string& name, int rank, int64_t rows, int64_t columns);
  /// Without its ".weight".
  StoredMatrix Matrix(const std::string& name, int64_t rows, int64_t columns);
  Tensor Vector(const std::string& name, int64_t size);
  /// Rows of a matrix as f32, whatever they are stored as.
  Tensor Floats(const std::string& name, int64_t rows, int64_t columns);

  void Mark(const std::string& name) { used_.insert(name); }
  bool IsUsed(const std::string& name) const { return used_.contains(name); }
  const TensorTable& table() const { return table_; }

  [[noreturn]] static void Refuse(const std::string& name, const PlacedTensor& placed, int64_t rows,
                                  int64_t columns);

 private:
  const TensorTable& table_;
  std::set<std::string> used_;
};

}  // namespace oort
