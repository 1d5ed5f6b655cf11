// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <vector>

#include "layers/shape/strided.h"
#include "oort/error.h"

namespace oort {

/// The diagonal `offset` of two axes of a dense tensor, as the last axis behind the others.
inline Strided DiagonalView(const Shape& shape, int64_t offset, int64_t dim1, int64_t dim2) {
  const int row = NormalizeAxis(dim1, shape.rank());
  const int column = NormalizeAxis(dim2, shape.rank());
  if (row == column || shape.rank() < 2) {
    throw Error(ErrorCode::kInvalidArgument,
                "expected two axes of a shape, got one of " + shape.ToString());
  }
  const Strided view(shape);
  const int64_t up = std::max<int64_t>(offset, 0);
  const int64_t down = offset >= 0 ? 0 : offset == INT64_MIN ? INT64_MAX : -offset;
  const int64_t rows = std::max<int64_t>(0, shape[row] - std::min(down, shape[row]));
  const int64_t columns = std::max<int64_t>(0, shape[column] - std::min(up, shape[column]));
  const int64_t length = std::min(rows, columns);
  std::vector<Strided::Axis> axes;
  for (int i = 0; i < shape.rank(); ++i) {
    if (i != row && i != column) axes.push_back(view[i]);
  }
  axes.push_back({length, view[row].stride + view[column].stride});
  const int64_t start = length == 0 ? 0 : down * view[row].stride + up * view[column].stride;
  return Strided::Of(axes, start);
}

}  // namespace oort
