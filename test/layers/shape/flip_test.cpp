// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "moved_elements.h"

namespace oort::testing {
namespace {

Tensor Flipped(const Tensor& x, const std::vector<int>& axes) {
  return Moved(x, x.shape(), [&](Coordinates at) {
    for (int axis : axes) {
      int64_t& along = at[static_cast<size_t>(axis)];
      along = x.shape()[axis] - 1 - along;
    }
    return at;
  });
}

TEST(Flip, ReversesAxes) {
  for (DType dtype : MovedDTypes()) {
    const Tensor x = RandomTensor(dtype, {3, 4, 5});
    const auto expect = [&](const char* dims, const std::vector<int>& axes) {
      OperatorCase("torch.flip").Param("dims", dims).Input(x).ExpectOutputs({Flipped(x, axes)});
    };
    expect("(0)", {0});
    expect("(1)", {1});
    expect("(-1)", {2});
    expect("(-2,-1)", {1, 2});
    expect("(0,1,2)", {0, 1, 2});
    expect("None", {});
  }
}

TEST(Flip, WorksOnEdgeSizes) {
  for (int64_t length : EdgeLengths()) {
    const Tensor x = RandomTensor(DType::kF32, {length});
    OperatorCase("torch.flip").Param("dims", "(0)").Input(x).ExpectOutputs({Flipped(x, {0})});
  }
  const Tensor scalar = RandomTensor(DType::kF32, {});
  OperatorCase("torch.flip").Param("dims", "(0)").Input(scalar).ExpectOutputs({scalar});
}

TEST(Flip, RefusesWrongAxes) {
  const Tensor x = RandomTensor(DType::kF32, {3, 4});
  OperatorCase("torch.flip")
      .Param("dims", "(0,-2)")
      .Input(x)
      .ExpectError(ErrorCode::kInvalidArgument, "appears twice");
  OperatorCase("torch.flip")
      .Param("dims", "(2)")
      .Input(x)
      .ExpectError(ErrorCode::kInvalidArgument, "axis 2 is out of range");
}

}  // namespace
}  // namespace oort::testing
