// SPDX-License-Identifier: MIT
// Indexing that pnnx leaves as ATen operators. Expected values are torch's.
#include <gtest/gtest.h>

#include <cmath>

#include "layers/short_tensors.h"

namespace oort::testing {
namespace {

TEST(AtenCounts, CountsValues) {
  OperatorCase("aten::one_hot")
      .Param("num_classes", "3")
      .Input(Ints({2, 0}, {2}))
      .ExpectOutputs({Ints({0, 0, 1, 1, 0, 0}, {2, 3})});
  OperatorCase("aten::one_hot").Input(Ints({1}, {1})).ExpectOutputs({Ints({0, 1}, {1, 2})});
  OperatorCase("aten::one_hot")
      .Param("num_classes", "2")
      .Input(Ints({2}, {1}))
      .ExpectError(ErrorCode::kInvalidArgument, "out of range");
  OperatorCase("aten::one_hot")
      .Input(Ints({-2}, {1}))
      .ExpectError(ErrorCode::kInvalidArgument, "at least 0");
  OperatorCase("aten::one_hot")
      .Input(Tensor(DType::kI64, {0}))
      .ExpectError(ErrorCode::kInvalidArgument, "unknown");
  OperatorCase("aten::bincount")
      .Param("minlength", "4")
      .Input(Ints({1, 1, 0}, {3}))
      .ExpectOutputs({Ints({1, 2, 0, 0}, {4})});
  OperatorCase("aten::bincount")
      .Input(Ints({1, 1, 0}, {3}))
      .Input(Floats({0.5, 0.25, 2}, {3}))
      .ExpectOutputs({Floats({2, 0.75}, {2})});
  OperatorCase("aten::bincount")
      .Input(Ints({INT64_MAX}, {1}))
      .ExpectError(ErrorCode::kInvalidArgument, "overflows");
  OperatorCase("aten::histc")
      .Param("bins", "2")
      .Param("min", "0")
      .Param("max", "4")
      .Input(Floats({0, 2, 4, 5, NAN, 1}, {6}))
      .ExpectOutputs({Floats({2, 2}, {2})});
  OperatorCase("aten::histc")
      .Param("bins", "0")
      .Input(Floats({0}, {1}))
      .ExpectError(ErrorCode::kInvalidModel, "expected bins");
}

}  // namespace
}  // namespace oort::testing
