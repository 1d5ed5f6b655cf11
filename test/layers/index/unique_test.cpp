// SPDX-License-Identifier: MIT
// Indexing that pnnx leaves as ATen operators. Expected values are torch's.
#include <gtest/gtest.h>

#include <cmath>

#include "layers/short_tensors.h"

namespace oort::testing {
namespace {

TEST(AtenUnique, FindsDistinctElementsAndSlices) {
  OperatorCase("aten::_unique2")
      .Param("return_inverse", "True")
      .Param("return_counts", "True")
      .Input(Floats({3, 1, 3, 2}, {2, 2}))
      .Outputs(3)
      .ExpectOutputs({Floats({1, 2, 3}, {3}), Ints({2, 0, 2, 1}, {2, 2}), Ints({1, 1, 2}, {3})});
  OperatorCase("aten::unique_consecutive")
      .Input(Ints({1, 1, 2, 1}, {4}))
      .ExpectOutputs({Ints({1, 2, 1}, {3})});
  OperatorCase("aten::unique_dim")
      .Param("dim", "1")
      .Input(Ints({2, 1, 2, 5, 4, 5}, {2, 3}))
      .ExpectOutputs({Ints({1, 2, 4, 5}, {2, 2})});
  OperatorCase("aten::unique_dim")
      .Param("dim", "2")
      .Input(Ints({1, 2}, {1, 2}))
      .ExpectError(ErrorCode::kInvalidArgument, "");
  OperatorCase("aten::_unique2")
      .Input(Tensor(DType::kF32, {0}))
      .ExpectOutputs({Tensor(DType::kF32, {0})});
}

}  // namespace
}  // namespace oort::testing
