// SPDX-License-Identifier: MIT
#include "parser/checkpoint/row_parts.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/checked.h"
#include "core/problems.h"

namespace oort {
namespace {

/// Rows [begin, begin + count) of one part.
StoredMatrix RowsOf(const PlacedTensor& part, int64_t begin, int64_t count) {
  TensorTable table;
  table.Add("part", part.Cut(begin, count));
  return table.Matrix("part");
}

/// Copies `count` rows from `first` on to row `row` of the `rows` that `to` has.
void CopyRows(const Tensor& from, int64_t first, int64_t count, Tensor& to, int64_t row,
              int64_t rows) {
  if (!from.defined() || from.elements() == 0) return;
  if (!to.defined()) to = Tensor(from.dtype(), {rows, from.dim(1)});
  const size_t bytes = from.bytes() / static_cast<size_t>(from.dim(0));
  std::memcpy(to.raw() + static_cast<size_t>(row) * bytes,
              from.raw() + static_cast<size_t>(first) * bytes, static_cast<size_t>(count) * bytes);
}

/// The same of a matrix.
void CopyRows(const StoredMatrix& from, int64_t first, int64_t count, StoredMatrix& to,
              int64_t row) {
  to.format = from.format;
  to.columns = from.columns;
  CopyRows(from.data, first, count, to.data, row, to.rows);
  CopyRows(from.scale, first, count, to.scale, row, to.rows);
  CopyRows(from.minimum, first, count, to.minimum, row, to.rows);
}

class StackedRows final : public CheckpointMatrix {
 public:
  explicit StackedRows(std::vector<PlacedTensor> parts) : parts_(std::move(parts)) {}

  StoredMatrix Rows(int64_t begin, int64_t count) const override {
    StoredMatrix all;
    all.rows = count;
    int64_t first = 0, row = 0;  // of the part; of the result
    for (const PlacedTensor& part : parts_) {
      const int64_t from = std::max(begin, first);
      const int64_t until = std::min(begin + count, first + part.rows);
      if (from < until) {
        const StoredMatrix rows = RowsOf(part, from - first, until - from);
        if (rows.rows == count) return rows;  // a view of the file
        CopyRows(rows, 0, rows.rows, all, row);
        row += until - from;
      }
      first += part.rows;
    }
    return all;
  }

 private:
  std::vector<PlacedTensor> parts_;
};

/// Runs of rows at equal distances in another matrix.
class SpacedRows final : public CheckpointMatrix {
 public:
  SpacedRows(PlacedTensor whole, int64_t first, int64_t run, int64_t stride)
      : whole_(std::move(whole)), first_(first), run_(run), stride_(stride) {}

  StoredMatrix Rows(int64_t begin, int64_t count) const override {
    StoredMatrix all;
    all.rows = count;
    const int64_t end = begin + count, runs_at_once = std::max<int64_t>(1, kRowsAtOnce / stride_);
    for (int64_t run = begin / run_; run * run_ < end; run += runs_at_once) {
      const int64_t last = std::min((end - 1) / run_, run + runs_at_once - 1);
      const StoredMatrix rows =
          RowsOf(whole_, first_ + run * stride_, (last - run) * stride_ + run_);
      for (int64_t i = run; i <= last; ++i) {
        const int64_t from = std::max(begin, i * run_), until = std::min(end, (i + 1) * run_);
        CopyRows(rows, (i - run) * stride_ + from - i * run_, until - from, all, from - begin);
      }
    }
    return all;
  }

 private:
  static constexpr int64_t kRowsAtOnce = 4096;  ///< more would need much memory while they unpack

  PlacedTensor whole_;
  int64_t first_, run_, stride_;
};

/// to[c][r] = from[r][c], in squares that fit the cache.
template <typename T>
void Turn(const T* from, int64_t rows, int64_t columns, T* to) {
  constexpr int64_t kTile = 32;
  for (int64_t r0 = 0; r0 < rows; r0 += kTile) {
    for (int64_t c = 0; c < columns; ++c) {
      for (int64_t r = r0; r < std::min(rows, r0 + kTile); ++r) {
        to[c * rows + r] = from[r * columns + c];
      }
    }
  }
}

/// The transpose: plain floats stay as they are, others become f32.
StoredMatrix Turned(const StoredMatrix& matrix) {
  StoredMatrix turned{matrix.format, matrix.columns, matrix.rows, {}, {}, {}};
  if (matrix.format == WeightFormat::kF16 || matrix.format == WeightFormat::kBf16) {
    turned.data = Tensor(matrix.data.dtype(), {turned.rows, turned.columns});
    Turn(reinterpret_cast<const uint16_t*>(matrix.data.raw()), matrix.rows, matrix.columns,
         reinterpret_cast<uint16_t*>(turned.data.raw()));
    return turned;
  }
  Tensor values(DType::kF32, {matrix.rows, matrix.columns});
  ReadRows(matrix, 0, matrix.rows, values.data<float>());
  turned.format = WeightFormat::kF32;
  turned.data = Tensor(DType::kF32, {turned.rows, turned.columns});
  Turn(values.data<float>(), matrix.rows, matrix.columns, turned.data.data<float>());
  return turned;
}

/// Matrices that lie one behind the other in another, each turned.
class TurnedRows final : public CheckpointMatrix {
 public:
  TurnedRows(PlacedTensor whole, int64_t inputs) : whole_(std::move(whole)), inputs_(inputs) {}

  StoredMatrix Rows(int64_t begin, int64_t count) const override {
    StoredMatrix all;
    all.rows = count;
    const int64_t end = begin + count, outputs = whole_.columns;
    for (int64_t row = begin; row < end;) {
      const int64_t part = row / outputs, until = std::min(end, (part + 1) * outputs);
      const StoredMatrix rows = Turned(RowsOf(whole_, part * inputs_, inputs_));
      CopyRows(rows, row - part * outputs, until - row, all, row - begin);
      row = until;
    }
    return all;
  }

 private:
  PlacedTensor whole_;
  int64_t inputs_;
};

}  // namespace

PlacedTensor Stacked(std::vector<PlacedTensor> parts) {
  if (parts.empty()) throw Error(ErrorCode::kInternal, "a matrix of no parts");
  PlacedTensor all = parts.front();
  const int rank = all.rank;
  all.rows = 0;
  for (PlacedTensor& part : parts) {
    if (part.rank != rank || part.columns != parts.front().columns ||
        part.format != parts.front().format ||
        (part.packed == nullptr) != (parts.front().packed == nullptr)) {
      throw Error(ErrorCode::kInvalidModel, "parts of " + parts.front().ShapeText() + " and " +
                                                part.ShapeText() +
                                                " or of different formats make up no matrix");
    }
    part.rank = 2;
    all.rows += part.rows;
  }
  all.rank = 2;
  all.first_row = 0;
  all.packed = std::make_shared<StackedRows>(std::move(parts));
  return all;
}

PlacedTensor TurnedParts(const PlacedTensor& whole, int64_t inputs) {
  if (inputs < 1 || whole.rank != 2 || whole.rows % inputs != 0) {
    throw Error(ErrorCode::kInvalidModel, "matrices of " + std::to_string(inputs) +
                                              " rows do not make up " + whole.ShapeText());
  }
  PlacedTensor turned = whole;
  turned.rows = CheckedMultiply(whole.rows / inputs, whole.columns);
  turned.columns = inputs;
  turned.first_row = 0;
  turned.packed = std::make_shared<TurnedRows>(whole, inputs);
  return turned;
}

PlacedTensor EveryRun(const PlacedTensor& whole, int64_t first, int64_t run, int64_t stride) {
  PlacedTensor rows = whole;
  if (whole.rank == 1) {  // a row for each element
    rows.rank = 2;
    rows.rows = whole.columns;
    rows.columns = 1;
  }
  if (run < 1 || stride < run || first < 0 || first >= rows.rows) {
    throw Error(ErrorCode::kInternal, "no runs of rows");
  }
  const int64_t runs = (rows.rows - first - 1) / stride + 1;
  rows.Cut(first + (runs - 1) * stride, run);  // throws unless the last one is whole
  PlacedTensor all = rows;
  all.rows = runs * run;
  all.first_row = 0;
  all.packed = std::make_shared<SpacedRows>(rows, first, run, stride);
  if (whole.rank != 1) return all;
  all.rank = 1;
  all.columns = all.rows;
  all.rows = 1;
  return all;
}

}  // namespace oort
