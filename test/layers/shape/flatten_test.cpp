// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "moved_elements.h"

namespace oort::testing {
namespace {

struct FlattenCase {
  Shape input;
  const char *start, *end;
  Shape expected;
};

TEST(Flatten, JoinsAxes) {
  const FlattenCase cases[] = {
      {{2, 3, 4, 5}, "1", "-1", {2, 60}},    {{2, 3, 4, 5}, "0", "1", {6, 4, 5}},
      {{2, 3, 4, 5}, "-3", "2", {2, 12, 5}}, {{2, 3}, "1", "1", {2, 3}},
      {{2, 0, 4}, "0", "-1", {0}},           {{}, "0", "-1", {1}},
  };
  for (const FlattenCase& c : cases) {
    SCOPED_TRACE(c.input.ToString() + " " + c.start + " to " + c.end);
    const Tensor x = RandomTensor(DType::kF32, c.input);
    for (const char* type : {"torch.flatten", "nn.Flatten"}) {
      OperatorCase(type)
          .Param("start_dim", c.start)
          .Param("end_dim", c.end)
          .Input(x)
          .ExpectOutputs({x.Reshaped(c.expected)});
    }
  }
}

TEST(Flatten, HasTorchsDefaults) {
  const Tensor x = RandomTensor(DType::kF32, {2, 3, 4});
  OperatorCase("torch.flatten").Input(x).ExpectOutputs({x.Reshaped({24})});
  OperatorCase("nn.Flatten").Input(x).ExpectOutputs({x.Reshaped({2, 12})});
}

TEST(Flatten, RefusesWrongAxes) {
  const Tensor x = RandomTensor(DType::kF32, {2, 3, 4});
  OperatorCase("torch.flatten")
      .Param("start_dim", "2")
      .Param("end_dim", "1")
      .Input(x)
      .ExpectError(ErrorCode::kInvalidArgument, "start_dim 2 lies behind end_dim 1");
  OperatorCase("torch.flatten")
      .Param("start_dim", "3")
      .Input(x)
      .ExpectError(ErrorCode::kInvalidArgument, "axis 3 is out of range");
}

TEST(Unflatten, SplitsAnAxis) {
  const Tensor x = RandomTensor(DType::kF32, {2, 12, 3});
  const auto expect = [&](const char* dim, const char* sizes, const Shape& shape) {
    OperatorCase("Tensor.unflatten")
        .Param("dim", dim)
        .Param("sizes", sizes)
        .Input(x)
        .ExpectOutputs({x.Reshaped(shape)});
    OperatorCase("nn.Unflatten")
        .Param("dim", dim)
        .Param("unflattened_size", sizes)
        .Input(x)
        .ExpectOutputs({x.Reshaped(shape)});
  };
  expect("1", "(3,4)", {2, 3, 4, 3});
  expect("-2", "(2,1,-1)", {2, 2, 1, 6, 3});
  expect("0", "(-1)", {2, 12, 3});
}

TEST(Unflatten, RefusesWhatDoesNotFit) {
  const Tensor x = RandomTensor(DType::kF32, {2, 12, 3});
  for (const char* sizes :
       {"(5,-1)", "(3,3)", "(-1,-1)", "(-2,-6)", "(0,-1)", "(2147483647,2147483647,2147483647)"}) {
    SCOPED_TRACE(sizes);
    OperatorCase("Tensor.unflatten")
        .Param("dim", "1")
        .Param("sizes", sizes)
        .Input(x)
        .ExpectError(ErrorCode::kInvalidArgument, "");
  }
  OperatorCase("Tensor.unflatten")
      .Param("dim", "0")
      .Param("sizes", "(1)")
      .Input(RandomTensor(DType::kF32, {}))
      .ExpectError(ErrorCode::kInvalidArgument, "rank");
}

}  // namespace
}  // namespace oort::testing
