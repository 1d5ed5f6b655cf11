// SPDX-License-Identifier: MIT
// Movements of elements that pnnx leaves as ATen operators.
#include <gtest/gtest.h>

#include "layers/aten/aten_form.h"
#include "layers/shape/moved_elements.h"

namespace oort::testing {
namespace {

TEST(AtenShape, KeepsTriangles) {
  for (DType dtype : MovedDTypes()) {
    const Tensor x = RandomTensor(dtype, {2, 3, 5});
    for (int64_t k : {-4, -1, 0, 2, 9}) {
      OperatorCase("aten::tril")
          .Param("diagonal", std::to_string(k))
          .Input(x)
          .ExpectOutputs({Moved(x, x.shape(), [&](const Coordinates& at) {
            return at[2] - at[1] <= k ? at : Coordinates{-1};
          })});
      OperatorCase("torch.triu")
          .Param("diagonal", std::to_string(k))
          .Input(x)
          .ExpectOutputs({Moved(x, x.shape(), [&](const Coordinates& at) {
            return at[2] - at[1] >= k ? at : Coordinates{-1};
          })});
    }
  }
  OperatorCase("aten::tril")
      .Input(RandomTensor(DType::kF32, {3}))
      .ExpectError(ErrorCode::kInvalidArgument, "rank of at least 2");
  OperatorCase("aten::triu")
      .Input(RandomTensor(DType::kF32, {0, 3}))
      .ExpectOutputs({Tensor(DType::kF32, {0, 3})});
  OperatorCase("aten::triu")
      .Input(RangeTensor(DType::kF32, {2, 2}), "input")
      .Input(INT64_MAX, "diagonal")
      .ExpectOutputs({Tensor::Zeros(DType::kF32, {2, 2})});
}

TEST(AtenShape, NamesTheElementsOfTriangles) {
  OperatorCase("aten::tril_indices")
      .Param("row", "2")
      .Param("col", "3")
      .Param("offset", "1")
      .ExpectOutputs({Tensor::From<int64_t>({0, 0, 1, 1, 1, 0, 1, 0, 1, 2}, {2, 5})});
  OperatorCase("aten::triu_indices")
      .Param("row", "3")
      .Param("col", "2")
      .ExpectOutputs({Tensor::From<int64_t>({0, 0, 1, 0, 1, 1}, {2, 3})});
  OperatorCase("aten::triu_indices")
      .Param("row", "-1")
      .Param("col", "2")
      .ExpectError(ErrorCode::kInvalidArgument, "expected a matrix");
}

}  // namespace
}  // namespace oort::testing
