// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "moved_elements.h"

namespace oort::testing {
namespace {

Tensor Rolled(const Tensor& x, const std::vector<int64_t>& shifts) {
  return Moved(x, x.shape(), [&](Coordinates at) {
    for (size_t i = 0; i < at.size(); ++i) {
      const int64_t extent = x.shape()[static_cast<int>(i)];
      at[i] = ((at[i] - shifts[i]) % extent + extent) % extent;
    }
    return at;
  });
}

TEST(Roll, MovesAlongAxes) {
  for (DType dtype : MovedDTypes()) {
    const Tensor x = RandomTensor(dtype, {4, 5, 6});
    const auto expect = [&](const char* dims, const char* by, const std::vector<int64_t>& shifts) {
      OperatorCase("torch.roll")
          .Param("dims", dims)
          .Param("shifts", by)
          .Input(x)
          .ExpectOutputs({Rolled(x, shifts)});
    };
    expect("(1)", "(2)", {0, 2, 0});
    expect("(-1)", "(-2)", {0, 0, -2});
    expect("(0,1)", "(2,1)", {2, 1, 0});
    expect("(0,1,2)", "(-3,-3,9)", {-3, -3, 9});
    expect("(0,0)", "(1,2)", {3, 0, 0});  // an axis may be named twice
    expect("(2)", "(0)", {0, 0, 0});
    expect("(2)", "(-2147483648)", {0, 0, -2147483648});
  }
}

TEST(Roll, WithoutAxesTheTensorIsFlat) {
  const Tensor x = RangeTensor(DType::kF32, {2, 3});
  OperatorCase("torch.roll")
      .Param("dims", "None")
      .Param("shifts", "(2)")
      .Input(x)
      .ExpectOutputs({Tensor::From<float>({4, 5, 0, 1, 2, 3}, {2, 3})});
  const Tensor scalar = RandomTensor(DType::kF32, {});
  OperatorCase("torch.roll")
      .Param("dims", "None")
      .Param("shifts", "1")
      .Input(scalar)
      .ExpectOutputs({scalar});
  const Tensor empty(DType::kF32, {0, 3});
  OperatorCase("torch.roll")
      .Param("dims", "(0)")
      .Param("shifts", "(1)")
      .Input(empty)
      .ExpectOutputs({empty});
}

TEST(Roll, RefusesWrongArguments) {
  const Tensor x = RandomTensor(DType::kF32, {2, 3});
  OperatorCase("torch.roll")
      .Param("dims", "(0,1)")
      .Param("shifts", "(1)")
      .Input(x)
      .ExpectError(ErrorCode::kInvalidArgument, "expected 2 shifts, got 1");
  OperatorCase("torch.roll")
      .Param("dims", "(2)")
      .Param("shifts", "(1)")
      .Input(x)
      .ExpectError(ErrorCode::kInvalidArgument, "axis 2 is out of range");
}

}  // namespace
}  // namespace oort::testing
