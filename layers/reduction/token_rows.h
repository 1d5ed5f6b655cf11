// SPDX-License-Identifier: MIT
#pragma once

#include <limits>
#include <vector>

#include "oort/layer.h"

namespace oort {

/// The i32 that an operator finds for each row of logits, whose first is that of token `first`.
inline std::vector<Value> InferTokenOfRows(const Tensor& logits, int64_t first = 0) {
  const Shape& shape = logits.shape();
  if (shape.rank() < 1 || first > std::numeric_limits<int32_t>::max() - shape[shape.rank() - 1]) {
    throw Error(ErrorCode::kInvalidArgument,
                "expected rows of at most 2^31 - 1 logits, got " + logits.ToString());
  }
  Shape rows;
  for (int i = 0; i + 1 < shape.rank(); ++i) rows.Append(shape[i]);
  return {Tensor::Meta(DType::kI32, rows)};
}

}  // namespace oort
