// SPDX-License-Identifier: MIT
// Movements of elements that pnnx leaves as ATen operators.
#include <gtest/gtest.h>

#include "layers/aten/aten_form.h"
#include "layers/shape/moved_elements.h"

namespace oort::testing {
namespace {

TEST(AtenShape, UnfoldsAnAxis) {
  const Tensor x = RandomTensor(DType::kI64, {2, 7});
  OperatorCase("Tensor.unfold")
      .Param("dimension", "1")
      .Param("size", "3")
      .Param("step", "2")
      .Input(x)
      .ExpectOutputs({Moved(x, {2, 3, 3}, [](const Coordinates& at) {
        return Coordinates{at[0], at[1] * 2 + at[2]};
      })});
  for (const auto& [size, step] : {std::pair("8", "1"), {"-1", "1"}, {"2", "0"}}) {
    OperatorCase("aten::unfold")
        .Param("dimension", "1")
        .Param("size", size)
        .Param("step", step)
        .Input(x)
        .ExpectError(ErrorCode::kInvalidArgument, "has no windows");
  }
}

TEST(AtenShape, TakesDiagonalsOfStacks) {
  const Tensor x = RandomTensor(DType::kF32, {2, 3, 4});
  const auto diagonal = [&](const char* offset) {
    return OperatorCase("aten::diagonal")
        .Param("offset", offset)
        .Param("dim1", "1")
        .Param("dim2", "-1")
        .Input(x);
  };
  diagonal("0").ExpectOutputs({Moved(x, {2, 3}, [](const Coordinates& at) {
    return Coordinates{at[0], at[1], at[1]};
  })});
  diagonal("2").ExpectOutputs({Moved(x, {2, 2}, [](const Coordinates& at) {
    return Coordinates{at[0], at[1], at[1] + 2};
  })});
  diagonal("-1").ExpectOutputs({Moved(x, {2, 2}, [](const Coordinates& at) {
    return Coordinates{at[0], at[1] + 1, at[1]};
  })});
  diagonal("-9").ExpectOutputs({Tensor(DType::kF32, {2, 0})});
  diagonal("2147483647").ExpectOutputs({Tensor(DType::kF32, {2, 0})});
  OperatorCase("aten::diagonal")
      .Param("dim2", "0")
      .Input(x)
      .ExpectError(ErrorCode::kInvalidArgument, "two axes");
}

TEST(AtenShape, ReadsByStrides) {
  const Tensor x = RangeTensor(DType::kF32, {3, 4});
  OperatorCase("torch.as_strided")
      .Param("size", "(2,3)")
      .Param("stride", "(4,2)")
      .Param("storage_offset", "1")
      .Input(x)
      .ExpectOutputs({Tensor::From<float>({1, 3, 5, 5, 7, 9}, {2, 3})});
  OperatorCase("torch.as_strided")
      .Param("size", "(3,4)")
      .Param("stride", "(4,2)")
      .Input(x)
      .ExpectError(ErrorCode::kInvalidArgument, "reach beyond");
  OperatorCase("torch.as_strided")
      .Param("size", "(2147483647,2)")
      .Param("stride", "(2147483647,2147483647)")
      .Input(x)
      .ExpectError(ErrorCode::kInvalidArgument, "");
  OperatorCase("torch.as_strided")
      .Param("size", "(2)")
      .Param("stride", "(-1)")
      .Input(x)
      .ExpectError(ErrorCode::kInvalidArgument, "at least 0");
}

}  // namespace
}  // namespace oort::testing
