// SPDX-License-Identifier: MIT
// Indexing that pnnx leaves as ATen operators. Expected values are torch's.
#include <gtest/gtest.h>

#include <cmath>

#include "layers/short_tensors.h"

namespace oort::testing {
namespace {

TEST(AtenNonzero, FindsPlacesInEveryDType) {
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kI64, DType::kBool, DType::kC64}) {
    OperatorCase("aten::nonzero")
        .Input(Floats({0, 1, 0, 2, 0, 3}, {2, 3}).To(dtype))
        .ExpectOutputs({Ints({0, 1, 1, 0, 1, 2}, {3, 2})});
  }
  OperatorCase("aten::nonzero")
      .Input(Tensor::Scalar<float>(3))
      .ExpectOutputs({Tensor(DType::kI64, {1, 0})});
  OperatorCase("aten::argwhere")
      .Input(Tensor(DType::kF32, {0, 3}))
      .ExpectOutputs({Tensor(DType::kI64, {0, 2})});
  OperatorCase("aten::masked_scatter")
      .Input(Floats({1, 2, 3, 4}, {2, 2}))
      .Input(Tensor::From<bool>({true, false}, {2}))
      .Input(Floats({8, 9}, {2}))
      .ExpectOutputs({Floats({8, 2, 9, 4}, {2, 2})});
  OperatorCase("aten::masked_scatter")
      .Input(Floats({1, 2}, {2}))
      .Input(Tensor::From<bool>({true, true}, {2}))
      .Input(Floats({8}, {1}))
      .ExpectError(ErrorCode::kInvalidArgument, "true 2 times");
}

}  // namespace
}  // namespace oort::testing
