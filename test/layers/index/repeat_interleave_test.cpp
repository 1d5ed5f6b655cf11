// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "layers/shape/moved_elements.h"

namespace oort::testing {
namespace {

TEST(RepeatInterleave, RepeatsEachPosition) {
  for (DType dtype : MovedDTypes()) {
    const Tensor x = RandomTensor(dtype, {2, 3});
    OperatorCase("torch.repeat_interleave")
        .Param("repeats", "2")
        .Param("dim", "1")
        .Input(x)
        .ExpectOutputs({Moved(x, {2, 6}, [](const Coordinates& at) {
          return Coordinates{at[0], at[1] / 2};
        })});
    OperatorCase("torch.repeat_interleave")
        .Param("repeats", "3")
        .Param("dim", "-2")
        .Input(x)
        .ExpectOutputs({Moved(x, {6, 3}, [](const Coordinates& at) {
          return Coordinates{at[0] / 3, at[1]};
        })});
    OperatorCase("torch.repeat_interleave")
        .Param("repeats", "2")
        .Param("dim", "None")
        .Input(x)
        .ExpectOutputs({Moved(x, {12}, [](const Coordinates& at) {
          return Coordinates{at[0] / 6, at[0] / 2 % 3};
        })});
  }
  OperatorCase("torch.repeat_interleave")
      .Param("repeats", "3")
      .Input(Tensor::Scalar(5.0f))
      .ExpectOutputs({Tensor::From<float>({5, 5, 5}, {3})});
}

TEST(RepeatInterleave, TakesACountForEachPosition) {
  const Tensor x = Tensor::From<float>({1, 2, 3, 4, 5, 6}, {3, 2});
  const auto repeat = [&](const Tensor& counts) {
    return OperatorCase("torch.repeat_interleave")
        .Param("dim", "0")
        .Input(x, "input")
        .Input(counts, "repeats");
  };
  repeat(Tensor::From<int64_t>({1, 0, 2}, {3}))
      .ExpectOutputs({Tensor::From<float>({1, 2, 5, 6, 5, 6}, {3, 2})});
  repeat(Tensor::From<int32_t>({2}, {1}))
      .ExpectOutputs({Tensor::From<float>({1, 2, 1, 2, 3, 4, 3, 4, 5, 6, 5, 6}, {6, 2})});
  repeat(Tensor::From<int64_t>({1, 2}, {2}))
      .ExpectError(ErrorCode::kInvalidArgument, "expected 1 or 3 counts, got 2");
  repeat(Tensor::From<int64_t>({1, -1, 1}, {3}))
      .ExpectError(ErrorCode::kInvalidArgument, "at least 0, got -1");
  repeat(Tensor::From<int64_t>({INT64_MAX, INT64_MAX, 1}, {3}))
      .ExpectError(ErrorCode::kInvalidArgument, "overflows");
}

TEST(RepeatInterleave, RefusesWrongArguments) {
  const Tensor x = RandomTensor(DType::kF32, {2, 3});
  OperatorCase("torch.repeat_interleave")
      .Param("repeats", "-1")
      .Param("dim", "0")
      .Input(x)
      .ExpectError(ErrorCode::kInvalidArgument, "at least 0");
  OperatorCase("torch.repeat_interleave")
      .Param("repeats", "1")
      .Param("dim", "2")
      .Input(x)
      .ExpectError(ErrorCode::kInvalidArgument, "axis 2 is out of range");
}

}  // namespace
}  // namespace oort::testing
