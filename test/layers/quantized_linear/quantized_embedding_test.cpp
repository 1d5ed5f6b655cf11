// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>

#include "byte_weight.h"

namespace oort::testing {
namespace {

TEST(QuantizedEmbedding, ReadsRows) {
  const ByteWeight table(50, 32, 16, 1);
  Tensor indices(DType::kI64, {2, 3});
  const int64_t rows[] = {0, 49, 17, 16, 15, 17};
  std::copy_n(rows, 6, indices.data<int64_t>());
  Tensor want(DType::kF32, {2, 3, 32});
  for (int64_t i = 0; i < 6; ++i) {
    for (int64_t j = 0; j < 32; ++j) {
      want.data<float>()[i * 32 + j] = static_cast<float>(3 * table.At(rows[i], j));
    }
  }
  OperatorCase op("oort.QuantizedEmbedding");
  op.Param("num_embeddings", "50").Param("embedding_dim", "32").Param("factor", "3.0");
  op.Param("format", "int8").Attribute("weight", table.data).Attribute("scale", table.scale);
  OperatorCase good = op;
  good.Input(indices).ExpectOutputs({want});
  for (int64_t wrong : {-1, 50}) {
    Tensor index = indices.Clone();
    index.data<int64_t>()[4] = wrong;
    OperatorCase bad = op;
    bad.Input(index).ExpectError(ErrorCode::kInvalidArgument, "table of 50 rows");
  }
}

}  // namespace
}  // namespace oort::testing
