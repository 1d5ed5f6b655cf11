// SPDX-License-Identifier: MIT
#include "parser/checkpoint/row_parts.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/problems.h"

namespace oort {
namespace {

/// Rows [begin, begin + count) of one part.
StoredMatrix RowsOf(const PlacedTensor& part, int64_t begin, int64_t count) {
  TensorTable table;
  table.Add("part", part.Cut(begin, count));
  return table.Matrix("part");
}

/// Puts `from` behind the rows that `to` has already.
void Append(const Tensor& from, int64_t row, Tensor& to, int64_t rows) {
  if (!from.defined() || from.elements() == 0) return;
  if (!to.defined()) to = Tensor(from.dtype(), {rows, from.dim(1)});
  const size_t bytes = from.bytes() / static_cast<size_t>(from.dim(0));
  std::memcpy(to.raw() + static_cast<size_t>(row) * bytes, from.raw(), from.bytes());
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
        all.format = rows.format;
        all.columns = rows.columns;
        Append(rows.data, row, all.data, count);
        Append(rows.scale, row, all.scale, count);
        Append(rows.minimum, row, all.minimum, count);
        row += until - from;
      }
      first += part.rows;
    }
    return all;
  }

 private:
  std::vector<PlacedTensor> parts_;
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

PlacedTensor EveryRun(const PlacedTensor& whole, int64_t first, int64_t run, int64_t stride) {
  PlacedTensor rows = whole;
  if (whole.rank == 1) {  // a row for each element
    rows.rank = 2;
    rows.rows = whole.columns;
    rows.columns = 1;
  }
  std::vector<PlacedTensor> parts;
  for (int64_t at = first; at < rows.rows; at += stride) parts.push_back(rows.Cut(at, run));
  PlacedTensor all = Stacked(std::move(parts));
  if (whole.rank != 1) return all;
  all.rank = 1;
  all.columns = all.rows;
  all.rows = 1;
  return all;
}

}  // namespace oort
