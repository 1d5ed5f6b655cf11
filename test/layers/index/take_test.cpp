// SPDX-License-Identifier: MIT
// Indexing that pnnx leaves as ATen operators. Expected values are torch's.
#include <gtest/gtest.h>

#include <cmath>

#include "layers/short_tensors.h"

namespace oort::testing {
namespace {

TEST(AtenTake, ReadsFlatAndAlongAxes) {
  const Tensor x = Floats({1, 2, 3, 4, 5, 6}, {2, 3});
  OperatorCase("aten::take")
      .Input(x)
      .Input(Ints({5, -6}, {1, 2}))
      .ExpectOutputs({Floats({6, 1}, {1, 2})});
  OperatorCase("aten::take")
      .Input(x)
      .Input(Ints({6}, {1}))
      .ExpectError(ErrorCode::kInvalidArgument, "out of range");
  OperatorCase("aten::take_along_dim")
      .Param("dim", "1")
      .Input(x)
      .Input(Ints({2, 0}, {1, 2}))
      .ExpectOutputs({Floats({3, 1, 6, 4}, {2, 2})});
  OperatorCase("aten::take_along_dim")
      .Input(x)
      .Input(Ints({4, 0}, {2}))
      .ExpectOutputs({Floats({5, 1}, {2})});
  OperatorCase("aten::take_along_dim")
      .Param("dim", "1")
      .Input(x)
      .Input(Ints({0}, {1}))
      .ExpectError(ErrorCode::kInvalidArgument, "of rank 2");
}

}  // namespace
}  // namespace oort::testing
