// SPDX-License-Identifier: MIT
// Functions, products and numbers that pnnx leaves as ATen operators. Expected values are torch's.
#include <gtest/gtest.h>

#include <cmath>

#include "layers/aten/aten_form.h"

namespace oort::testing {
namespace {

TEST(AtenProduct, RefusesWhatDoesNotFit) {
  const Tensor x = RandomTensor(DType::kF32, {2, 3}), y = RandomTensor(DType::kF32, {2, 4});
  OperatorCase("aten::outer")
      .Input(x)
      .Input(y)
      .ExpectError(ErrorCode::kInvalidArgument, "two vectors");
  OperatorCase("aten::inner")
      .Input(x)
      .Input(y)
      .ExpectError(ErrorCode::kInvalidArgument, "one length");
  OperatorCase("aten::tensordot")
      .Param("dims_self", "(1)")
      .Param("dims_other", "(1)")
      .Input(x)
      .Input(y)
      .ExpectError(ErrorCode::kInvalidArgument, "to sum over");
  OperatorCase("aten::kron")
      .Input(RandomTensor(DType::kF32, {1, 1, 1, 1, 1}))
      .Input(y)
      .ExpectError(ErrorCode::kUnsupported, "rank 4");
  OperatorCase("aten::linalg_matrix_power")
      .Param("n", "-1")
      .Input(RandomTensor(DType::kF32, {2, 2}))
      .ExpectError(ErrorCode::kUnsupported, "powers");
}

}  // namespace
}  // namespace oort::testing
