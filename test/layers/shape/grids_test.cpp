// SPDX-License-Identifier: MIT
// Movements of elements that pnnx leaves as ATen operators.
#include <gtest/gtest.h>

#include "layers/aten/aten_form.h"
#include "layers/shape/moved_elements.h"

namespace oort::testing {
namespace {

TEST(AtenShape, JoinsRaisedTensors) {
  const Tensor a = Tensor::From<float>({1, 2}, {2}), b = Tensor::From<float>({3, 4}, {2});
  const Value list = Value::List{a, b};
  OperatorCase("aten::hstack").Input(list).ExpectOutputs({Tensor::From<float>({1, 2, 3, 4}, {4})});
  OperatorCase("aten::vstack")
      .Input(list)
      .ExpectOutputs({Tensor::From<float>({1, 2, 3, 4}, {2, 2})});
  OperatorCase("aten::column_stack")
      .Input(list)
      .ExpectOutputs({Tensor::From<float>({1, 3, 2, 4}, {2, 2})});
  OperatorCase("aten::dstack")
      .Input(list)
      .ExpectOutputs({Tensor::From<float>({1, 3, 2, 4}, {1, 2, 2})});
  OperatorCase("aten::vstack")
      .Input(Value::List{a, RandomTensor(DType::kF32, {3})})
      .ExpectError(ErrorCode::kInvalidArgument, "do not join");
  OperatorCase("aten::cartesian_prod")
      .Input(list)
      .ExpectOutputs({Tensor::From<float>({1, 3, 1, 4, 2, 3, 2, 4}, {4, 2})});
  OperatorCase("aten::meshgrid")
      .Input(Value::List{RandomTensor(DType::kF32, {2, 2})})
      .ExpectError(ErrorCode::kInvalidArgument, "expected vectors");
  OperatorCase("aten::meshgrid")
      .Input(Value::List{})
      .ExpectError(ErrorCode::kInvalidArgument, "at least one tensor");
}

}  // namespace
}  // namespace oort::testing
