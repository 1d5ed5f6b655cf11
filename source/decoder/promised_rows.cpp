// SPDX-License-Identifier: MIT
#include "decoder/promised_rows.h"

#include <vector>

#include "parser/pnnx/promised.h"

namespace oort {

StoredMatrix PromisedRows(const std::shared_ptr<const CheckpointMatrix>& from, int64_t rows) {
  const auto make = [from](int64_t begin, int64_t end) {
    const StoredMatrix made = from->Rows(begin, end - begin);
    std::vector<Tensor> parts{made.data};
    if (made.scale.defined()) parts.push_back(made.scale);
    if (made.minimum.defined()) parts.push_back(made.minimum);
    return parts;
  };
  // One row shows which parts the whole matrix has.
  const StoredMatrix like = from->Rows(0, 1);
  const size_t parts = 1 + (like.scale.defined() ? 1 : 0) + (like.minimum.defined() ? 1 : 0);
  const auto promise = std::make_shared<Promise>(
      parts, [make, rows] { return make(0, rows); }, make);
  StoredMatrix matrix{like.format, rows, like.columns, {}, {}, {}};
  size_t index = 0;
  const auto promised = [&](const Tensor& part) {
    if (!part.defined()) return Tensor();
    return PromisedBuffer::Make(part.dtype(), {rows, part.dim(1)}, promise, index++);
  };
  matrix.data = promised(like.data);
  matrix.scale = promised(like.scale);
  matrix.minimum = promised(like.minimum);
  return matrix;
}

}  // namespace oort
