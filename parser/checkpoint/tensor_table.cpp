// SPDX-License-Identifier: MIT
#include "parser/checkpoint/tensor_table.h"

#include <algorithm>
#include <cstring>

#include "core/checked.h"
#include "core/problems.h"
#include "weights/weight_blocks.h"

namespace oort {
namespace {

DType PlainType(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32: return DType::kF32;
    case WeightFormat::kF16: return DType::kF16;
    case WeightFormat::kBf16: return DType::kBF16;
    case WeightFormat::kInt8: return DType::kI8;
    default: return DType::kU8;
  }
}

/// A view of the file where the elements lie aligned there, else a copy.
Tensor ViewOrCopy(const ByteSource& source, uint64_t offset, DType dtype, const Shape& shape) {
  const uint64_t bytes = CheckedMultiply<uint64_t>(static_cast<uint64_t>(shape.elements()),
                                                   static_cast<uint64_t>(ItemSize(dtype)));
  auto buffer = source.MapOrRead(offset, bytes);
  Tensor tensor(dtype, shape, buffer);
  if (bytes == 0 || reinterpret_cast<uintptr_t>(buffer->data()) % ItemSize(dtype) == 0) {
    return tensor;
  }
  Tensor copy(dtype, shape);
  std::memcpy(copy.raw(), buffer->data(), tensor.bytes());
  return copy;
}

/// to[c][r] = from[r][c], in squares that fit the cache; elements of kSize bytes.
template <size_t kSize>
void TransposeInto(const std::byte* from, int64_t stride, int64_t rows, int64_t columns,
                   std::byte* to) {
  constexpr int64_t kTile = 32;
  for (int64_t c0 = 0; c0 < rows; c0 += kTile) {
    for (int64_t r0 = 0; r0 < columns; r0 += kTile) {
      for (int64_t c = c0; c < std::min(rows, c0 + kTile); ++c) {
        for (int64_t r = r0; r < std::min(columns, r0 + kTile); ++r) {
          std::memcpy(to + (c * columns + r) * static_cast<int64_t>(kSize),
                      from + (r * stride + c) * static_cast<int64_t>(kSize), kSize);
        }
      }
    }
  }
}

Tensor ReadTransposed(const PlacedTensor& placed) {
  const DType dtype = PlainType(placed.format);
  const auto item = static_cast<int64_t>(ItemSize(dtype));
  Tensor tensor(dtype, {placed.rows, placed.columns});
  if (tensor.elements() == 0) return tensor;
  const int64_t elements = (placed.columns - 1) * placed.transposed_stride + placed.rows;
  const auto buffer =
      placed.source->MapOrRead(placed.offset, static_cast<uint64_t>(elements * item));
  if (item == 4) {
    TransposeInto<4>(buffer->data(), placed.transposed_stride, placed.rows, placed.columns,
                     tensor.raw());
  } else {
    TransposeInto<2>(buffer->data(), placed.transposed_stride, placed.rows, placed.columns,
                     tensor.raw());
  }
  return tensor;
}

}  // namespace

PlacedTensor PlacedTensor::Cut(int64_t begin, int64_t count) const {
  const int64_t all = rank == 1 ? columns : rows;
  if (begin < 0 || count < 0 || begin > all || count > all - begin) {
    throw Error(ErrorCode::kInvalidModel, "a tensor of " + ShapeText() + " cannot be cut at " +
                                              std::to_string(begin) + " and " +
                                              std::to_string(begin + count));
  }
  PlacedTensor part = *this;
  if (rank == 1) {
    part.columns = count;
    part.first_row += begin;
    part.offset += static_cast<uint64_t>(RowBytes(format, begin));
    RowBytes(format, count);  // whole blocks too
    return part;
  }
  part.rows = count;
  part.first_row += begin;
  if (packed != nullptr) return part;
  const int64_t ahead =
      transposed_stride != 0 ? RowBytes(format, begin) : begin * RowBytes(format, columns);
  part.offset += static_cast<uint64_t>(ahead);
  if (group != 0) part.scale_offset += static_cast<uint64_t>(begin * (columns / group) * 4);
  return part;
}

std::string PlacedTensor::ShapeText() const {
  return rank == 1 ? Shape{columns}.ToString() : Shape{rows, columns}.ToString();
}

void TensorTable::Add(std::string name, PlacedTensor tensor) {
  const auto [at, fresh] = tensors_.try_emplace(std::move(name), std::move(tensor));
  if (!fresh) {
    throw Error(ErrorCode::kInvalidModel, "two tensors of the file are both " + Quote(at->first));
  }
}

const PlacedTensor* TensorTable::Find(std::string_view name) const {
  const auto at = tensors_.find(name);
  return at == tensors_.end() ? nullptr : &at->second;
}

const PlacedTensor& TensorTable::Require(std::string_view name, int rank) const {
  const PlacedTensor* placed = Find(name);
  if (placed == nullptr) {
    throw Error(ErrorCode::kNotFound, "the checkpoint has no tensor " + Quote(name));
  }
  if (placed->rank != rank) {
    throw Error(ErrorCode::kInvalidArgument, "the tensor " + Quote(name) + " of " +
                                                 placed->ShapeText() + " is no " +
                                                 (rank == 1 ? "vector" : "matrix"));
  }
  return *placed;
}

StoredMatrix TensorTable::Matrix(std::string_view name) const {
  const PlacedTensor& placed = Require(name, 2);
  if (placed.packed != nullptr) return placed.packed->Rows(placed.first_row, placed.rows);
  StoredMatrix matrix{placed.format, placed.rows, placed.columns, {}, {}, {}};
  if (placed.transposed_stride != 0) {
    matrix.data = ReadTransposed(placed);
    return matrix;
  }
  const DType dtype = PlainType(placed.format);
  const int64_t items =
      RowBytes(placed.format, placed.columns) / static_cast<int64_t>(ItemSize(dtype));
  matrix.data = ViewOrCopy(*placed.source, placed.offset, dtype, {placed.rows, items});
  if (placed.group != 0) {
    matrix.scale = ViewOrCopy(*placed.source, placed.scale_offset, DType::kF32,
                              {placed.rows, placed.columns / placed.group});
  }
  return matrix;
}

Tensor TensorTable::Vector(std::string_view name) const {
  const PlacedTensor& placed = Require(name, 1);
  if (placed.packed != nullptr) {  // a row for each element
    Tensor values(DType::kF32, {placed.columns});
    ReadRows(placed.packed->Rows(placed.first_row, placed.columns), 0, placed.columns,
             values.data<float>());
    return values;
  }
  const DType dtype = PlainType(placed.format);
  const int64_t items =
      RowBytes(placed.format, placed.columns) / static_cast<int64_t>(ItemSize(dtype));
  const StoredMatrix row{placed.format,
                         1,
                         placed.columns,
                         ViewOrCopy(*placed.source, placed.offset, dtype, {1, items}),
                         {},
                         {}};
  Tensor values(DType::kF32, {placed.columns});
  ReadRows(row, 0, 1, values.data<float>());
  if (placed.added != 0) {
    for (float& value : std::span(values.data<float>(), static_cast<size_t>(placed.columns))) {
      value += placed.added;
    }
  }
  return values;
}

}  // namespace oort
