// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "layers/shape/moved_elements.h"

namespace oort::testing {
namespace {

/// x[start:…:step] along one axis, `length` elements.
Tensor Sliced(const Tensor& x, int axis, int64_t start, int64_t length, int64_t step = 1) {
  Shape shape = x.shape();
  shape[axis] = length;
  return Moved(x, shape, [&](Coordinates at) {
    at[static_cast<size_t>(axis)] = start + at[static_cast<size_t>(axis)] * step;
    return at;
  });
}

Tensor Selected(const Tensor& x, int axis, int64_t index) {
  Shape shape = x.shape();
  shape.Erase(axis);
  return Sliced(x, axis, index, 1).Reshaped(shape);
}

struct SliceCase {
  const char *start, *end, *step;
  int64_t first, length, stride;
};

TEST(Slice, FollowsPythonOnOneAxis) {
  const SliceCase cases[] = {
      {"0", "2147483647", "1", 0, 7, 1},
      {"2", "5", "1", 2, 3, 1},
      {"1", "6", "2", 1, 3, 2},
      {"-3", "-1", "1", 4, 2, 1},
      {"-100", "100", "3", 0, 3, 3},
      {"5", "2", "1", 5, 0, 1},
      {"7", "9", "1", 7, 0, 1},
      {"None", "None", "1", 0, 7, 1},
      {"6", "2147483647", "2147483647", 6, 1, 1},
      {"-2147483648", "3", "1", 0, 3, 1},
  };
  for (const SliceCase& c : cases) {
    SCOPED_TRACE(std::string(c.start) + ":" + c.end + ":" + c.step);
    for (DType dtype : MovedDTypes()) {
      const Tensor x = RandomTensor(dtype, {2, 7, 3});
      for (const char* dim : {"1", "-2"}) {
        OperatorCase("Tensor.slice")
            .Param("dim", dim)
            .Param("start", c.start)
            .Param("end", c.end)
            .Param("step", c.step)
            .Input(x, "input")
            .ExpectOutputs({Sliced(x, 1, c.first, c.length, c.stride)});
      }
    }
  }
}

OperatorCase Merged(const Tensor& x, const char* dims, const char* starts, const char* ends,
                    const char* steps, const char* selects) {
  return OperatorCase("Tensor.slice")
      .Param("dims", dims)
      .Param("starts", starts)
      .Param("ends", ends)
      .Param("steps", steps)
      .Param("selects", selects)
      .Input(x, "input");
}

TEST(Slice, UndoesMergedChains) {
  const Tensor x = RandomTensor(DType::kF32, {4, 5, 6});
  Merged(x, "(1,2)", "(1,0)", "(4,2147483647)", "(1,2)", "(2147483647,2147483647)")
      .ExpectOutputs({Sliced(Sliced(x, 1, 1, 3), 2, 0, 3, 2)});
  // x[3, :, 1:]: the axes count in the input.
  Merged(x, "(0,2)", "(0,1)", "(0,2147483647)", "(0,1)", "(3,2147483647)")
      .ExpectOutputs({Sliced(Selected(x, 0, 3), 1, 1, 5)});
  // x[-1, :, 2]
  Merged(x, "(0,2)", "(0,0)", "(0,0)", "(0,0)", "(-1,2)")
      .ExpectOutputs({Selected(Selected(x, 2, 2), 0, 3)});
  // x.select(-2, 0).select(-1, 1): pnnx adds one to the second axis, so that it reads 0.
  Merged(x, "(-2,0)", "(0,0)", "(0,0)", "(0,0)", "(0,1)")
      .ExpectOutputs({Selected(Selected(x, 1, 0), 1, 1)});
  // x.select(0, 2)[..., 1:3]: likewise after an axis that was not negative.
  Merged(x, "(0,0)", "(0,1)", "(0,3)", "(0,1)", "(2,2147483647)")
      .ExpectOutputs({Sliced(Selected(x, 0, 2), 1, 1, 2)});
}

TEST(Slice, TakesComputedBounds) {
  const Tensor x = RandomTensor(DType::kF32, {4, 5});
  OperatorCase("Tensor.slice")
      .Param("dim", "1")
      .Param("start", "1")
      .Param("step", "1")
      .Input(x, "input")
      .Input(int64_t{4}, "end")
      .ExpectOutputs({Sliced(x, 1, 1, 3)});
  // A scalar tensor is known only when the model runs.
  OperatorCase("Tensor.slice")
      .Param("dim", "1")
      .Param("end", "2147483647")
      .Param("step", "1")
      .Input(x, "input")
      .Input(Tensor::Scalar<int64_t>(3), "start")
      .ExpectOutputs({Sliced(x, 1, 3, 2)});
  OperatorCase("Tensor.slice")
      .Param("dims", "(0,1)")
      .Param("starts", "(0,1)")
      .Param("steps", "(0,1)")
      .Input(x, "input")
      .Input(Value::List{0}, "ends")  // a missing entry is the end of the axis
      .Input(Value::List{2, 2147483647}, "selects")
      .ExpectOutputs({Sliced(Selected(x, 0, 2), 0, 1, 4)});
}

TEST(Slice, RefusesWrongArguments) {
  const Tensor x = RandomTensor(DType::kF32, {4, 5});
  const auto slice = [&](const char* dim, const char* step) {
    return OperatorCase("Tensor.slice")
        .Param("dim", dim)
        .Param("start", "0")
        .Param("end", "2")
        .Param("step", step)
        .Input(x);
  };
  slice("2", "1").ExpectError(ErrorCode::kInvalidArgument, "axis 2 is out of range");
  slice("0", "0").ExpectError(ErrorCode::kInvalidArgument, "step of at least 1, got 0");
  slice("0", "-1").ExpectError(ErrorCode::kInvalidArgument, "step of at least 1, got -1");
  Merged(x, "(0)", "(0)", "(0)", "(0)", "(4)")
      .ExpectError(ErrorCode::kInvalidArgument, "index 4 is out of range for an axis of 4");
  Merged(x, "(0,1,2)", "(0,0,0)", "(0,0,0)", "(0,0,0)", "(0,0,0)")
      .ExpectError(ErrorCode::kInvalidArgument, "cannot slice a scalar");
}

TEST(Select, DropsTheAxis) {
  for (DType dtype : MovedDTypes()) {
    const Tensor x = RandomTensor(dtype, {3, 4, 5});
    const auto expect = [&](const char* dim, const char* index, int axis, int64_t at) {
      OperatorCase("Tensor.select")
          .Param("dim", dim)
          .Param("index", index)
          .Input(x)
          .ExpectOutputs({Selected(x, axis, at)});
    };
    expect("0", "1", 0, 1);
    expect("1", "-1", 1, 3);
    expect("-1", "0", 2, 0);
  }
  const Tensor x = RandomTensor(DType::kI32, {3});
  OperatorCase("Tensor.select")
      .Param("dim", "0")
      .Input(x, "input")
      .Input(int64_t{2}, "index")
      .ExpectOutputs({Selected(x, 0, 2)});
  OperatorCase("Tensor.select")
      .Param("dim", "0")
      .Param("index", "3")
      .Input(x)
      .ExpectError(ErrorCode::kInvalidArgument, "index 3 is out of range for an axis of 3");
  OperatorCase("Tensor.select")
      .Param("dim", "0")
      .Param("index", "-4")
      .Input(x)
      .ExpectError(ErrorCode::kInvalidArgument, "index -4 is out of range");
  OperatorCase("Tensor.select")
      .Param("dim", "0")
      .Param("index", "0")
      .Input(RandomTensor(DType::kF32, {}))
      .ExpectError(ErrorCode::kInvalidArgument, "cannot select from a scalar");
}

TEST(Narrow, TakesAStretch) {
  const Tensor x = RandomTensor(DType::kF32, {3, 5});
  const auto narrow = [&](const char* dim, const char* start, const char* length) {
    return OperatorCase("torch.narrow")
        .Param("dim", dim)
        .Param("start", start)
        .Param("length", length)
        .Input(x);
  };
  narrow("1", "1", "2").ExpectOutputs({Sliced(x, 1, 1, 2)});
  narrow("-2", "-2", "2").ExpectOutputs({Sliced(x, 0, 1, 2)});
  narrow("0", "3", "0").ExpectOutputs({Sliced(x, 0, 3, 0)});
  narrow("0", "2", "2").ExpectError(ErrorCode::kInvalidArgument, "no 2 elements from 2 on");
  narrow("0", "4", "0").ExpectError(ErrorCode::kInvalidArgument, "index 4 is out of range");
  narrow("0", "0", "-1").ExpectError(ErrorCode::kInvalidArgument, "no -1 elements");
}

}  // namespace
}  // namespace oort::testing
