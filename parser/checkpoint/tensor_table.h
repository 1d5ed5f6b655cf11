// SPDX-License-Identifier: MIT
// Where the tensors of a checkpoint lie in its files, under the names of the llama layout.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "oort/source.h"
#include "parser/checkpoint/decoder_config.h"
#include "weights/weight_format.h"

namespace oort {

/// A matrix whose numbers are packed in a way that only its reader knows.
class CheckpointMatrix {
 public:
  virtual ~CheckpointMatrix() = default;
  /// Rows [begin, begin + count), unpacked into a format of ours without loss.
  virtual StoredMatrix Rows(int64_t begin, int64_t count) const = 0;
};

/// A matrix or a vector (rank 1: one row) in a file.
struct PlacedTensor {
  std::shared_ptr<const ByteSource> source;
  uint64_t offset = 0;
  WeightFormat format = WeightFormat::kF32;
  int rank = 2;
  int64_t rows = 1;
  int64_t columns = 0;
  float added = 0;  ///< to every element of a vector: gemma's norms are w + 1
  /// Not 0: the file has the transpose, rows of so many elements, of which ours are the first
  /// `rows` from the offset on. Plain floats only.
  int64_t transposed_stride = 0;
  /// Not 0: format kInt8 with f32 scales of so many elements, which lie at scale_offset.
  int64_t group = 0;
  uint64_t scale_offset = 0;
  /// Not null: what lies in the file is told by this, and not by offset and format.
  std::shared_ptr<const CheckpointMatrix> packed;
  int64_t first_row = 0;  ///< of the packed matrix

  /// Rows [begin, begin + count) of a matrix, elements of a vector.
  PlacedTensor Cut(int64_t begin, int64_t count) const;
  /// So many rows or elements there are to cut.
  int64_t units() const { return rank == 1 ? columns : rows; }
  std::string ShapeText() const;
};

class TensorTable {
 public:
  /// Throws if the name is taken.
  void Add(std::string name, PlacedTensor tensor);
  void Remove(std::string_view name) { tensors_.erase(tensors_.find(name)); }
  const PlacedTensor* Find(std::string_view name) const;
  size_t size() const { return tensors_.size(); }
  const std::map<std::string, PlacedTensor, std::less<>>& tensors() const { return tensors_; }

  StoredMatrix Matrix(std::string_view name) const;
  Tensor Vector(std::string_view name) const;

 private:
  const PlacedTensor& Require(std::string_view name, int rank) const;
  std::map<std::string, PlacedTensor, std::less<>> tensors_;
};

/// Throws an Error of all problems unless the table holds exactly what the config asks for, with
/// the right shapes; biases of projections may be there or not.
void CheckTensors(const DecoderConfig& config, const TensorTable& table, std::string_view file);

}  // namespace oort
