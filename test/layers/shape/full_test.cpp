// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "layers/aten/aten_form.h"
#include "moved_elements.h"

namespace oort::testing {
namespace {

Tensor Filled(DType dtype, const Shape& shape, double value) {
  return RangeTensor(dtype, shape, value, 0);
}

TEST(Full, FillsAShape) {
  const auto expect = [](const char* type, DType dtype, double value) {
    for (const auto& [text, shape] : {std::pair<const char*, Shape>{"(2,3)", {2, 3}},
                                      {"(0,3)", {0, 3}},
                                      {"(1031)", {1031}},
                                      {"None", {}}}) {
      OperatorCase(type).Param("size", text).ExpectOutputs({Filled(dtype, shape, value)});
    }
  };
  expect("torch.zeros", DType::kF32, 0);
  expect("torch.ones", DType::kF32, 1);
  expect("torch.empty", DType::kF32, 0);
}

TEST(Full, TakesTheDTypeOfTheValue) {
  const auto full = [](const char* value) {
    return OperatorCase("torch.full").Param("size", "(2)").Param("fill_value", value);
  };
  full("7").ExpectOutputs({Filled(DType::kI64, {2}, 7)});
  full("0.5").ExpectOutputs({Filled(DType::kF32, {2}, 0.5)});
  full("True").ExpectOutputs({Filled(DType::kBool, {2}, 1)});
  full("-inf").ExpectOutputs({Filled(DType::kF32, {2}, -INFINITY)});
  full("7").Param("dtype", "torch.float").ExpectOutputs({Filled(DType::kF32, {2}, 7)});
  full("2.9").Param("dtype", "torch.int8").ExpectOutputs({Filled(DType::kI8, {2}, 2)});
  full("2.5").Param("dtype", "torch.bfloat16").ExpectOutputs({Filled(DType::kBF16, {2}, 2.5)});
  full("1.0e+00-2.0e+00j")
      .ExpectOutputs({Tensor::From<std::complex<float>>({{1, -2}, {1, -2}}, {2})});
  OperatorCase("torch.full")
      .Param("size", "(2)")
      .Input(Tensor::Scalar<int32_t>(9), "fill_value")
      .ExpectOutputs({Filled(DType::kI32, {2}, 9)});
}

TEST(Full, FollowsTheInput) {
  const Tensor x = RandomTensor(DType::kI32, {2, 3});
  OperatorCase("torch.zeros_like").Input(x).ExpectOutputs({Filled(DType::kI32, {2, 3}, 0)});
  OperatorCase("torch.ones_like").Input(x).ExpectOutputs({Filled(DType::kI32, {2, 3}, 1)});
  OperatorCase("torch.ones_like")
      .Param("dtype", "torch.bool")
      .Input(x)
      .ExpectOutputs({Filled(DType::kBool, {2, 3}, 1)});
  OperatorCase("torch.full_like")
      .Param("fill_value", "2.7")
      .Input(x)
      .ExpectOutputs({Filled(DType::kI32, {2, 3}, 2)});
  OperatorCase("Tensor.new_ones")
      .Param("size", "(4)")
      .Input(x)
      .ExpectOutputs({Filled(DType::kI32, {4}, 1)});
  OperatorCase("Tensor.new_zeros")
      .Input(x, "input")
      .Input(Value::List{2, 2}, "size")
      .ExpectOutputs({Filled(DType::kI32, {2, 2}, 0)});
  OperatorCase("Tensor.new_full")
      .Param("size", "(1)")
      .Param("fill_value", "3")
      .Input(x)
      .ExpectOutputs({Filled(DType::kI32, {1}, 3)});
  OperatorCase("Tensor.new_empty")
      .Param("size", "(0)")
      .Input(x)
      .ExpectOutputs({Filled(DType::kI32, {0}, 0)});
}

TEST(Full, TakesAtensForm) {
  const Tensor x = RandomTensor(DType::kF32, {2, 3});
  ExpectNear(RunAten("aten::new_full", {x}, {"[2,2]", "1.5", "None", "None", "None", "False"})[0],
             Filled(DType::kF32, {2, 2}, 1.5));
  // 4 is torch's number for int64.
  ExpectNear(RunAten("aten::new_full", {x}, {"[3]", "7", "4", "None", "None", "False"})[0],
             Filled(DType::kI64, {3}, 7));
  ExpectNear(RunAten("aten::ones_like", {x}, {"4", "None", "None", "False", "None"})[0],
             Filled(DType::kI64, {2, 3}, 1));
}

TEST(Full, RefusesAbsurdSizes) {
  OperatorCase("torch.zeros")
      .Param("size", "(-1)")
      .ExpectError(ErrorCode::kInvalidArgument, "negative extent");
  OperatorCase("torch.zeros")
      .Param("size", "(2147483647,2147483647,2147483647)")
      .ExpectError(ErrorCode::kInvalidArgument, "too many elements");
  OperatorCase("torch.full")
      .Param("size", "(2)")
      .ExpectError(ErrorCode::kInvalidModel, "'fill_value' is missing");
  OperatorCase("torch.zeros")
      .Param("size", "(2)")
      .Param("dtype", "torch.floor")
      .ExpectError(ErrorCode::kInvalidModel, "dtype");
}

}  // namespace
}  // namespace oort::testing
