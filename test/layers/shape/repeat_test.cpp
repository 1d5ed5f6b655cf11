// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "moved_elements.h"

namespace oort::testing {
namespace {

/// Coordinates modulo the extents of x, after its missing leading axes.
Tensor Tiled(const Tensor& x, const Shape& shape) {
  return Moved(x, shape, [&](const Coordinates& at) {
    Coordinates from;
    const int added = shape.rank() - x.rank();
    for (int i = 0; i < x.rank(); ++i) {
      from.push_back(at[static_cast<size_t>(i + added)] % x.shape()[i]);
    }
    return from;
  });
}

TEST(Repeat, RepeatsEveryAxis) {
  for (DType dtype : MovedDTypes()) {
    const Tensor x = RandomTensor(dtype, {2, 1, 3});
    OperatorCase("Tensor.repeat")
        .Param("sizes", "(1,2,3)")
        .Input(x)
        .ExpectOutputs({Tiled(x, {2, 2, 9})});
    OperatorCase("Tensor.repeat")
        .Param("sizes", "(4,1,3,1,2)")
        .Input(x)
        .ExpectOutputs({Tiled(x, {4, 1, 6, 1, 6})});
  }
  const Tensor scalar = RandomTensor(DType::kF32, {});
  OperatorCase("Tensor.repeat")
      .Param("sizes", "(2,3)")
      .Input(scalar)
      .ExpectOutputs({Tiled(scalar, {2, 3})});
  OperatorCase("Tensor.repeat").Param("sizes", "None").Input(scalar).ExpectOutputs({scalar});
  const Tensor eight = RandomTensor(DType::kF32, {1, 2, 1, 2, 1, 2, 1, 2});
  OperatorCase("Tensor.repeat")
      .Param("sizes", "(2,2,2,2,2,2,2,2)")
      .Input(eight)
      .ExpectOutputs({Tiled(eight, {2, 4, 2, 4, 2, 4, 2, 4})});
}

TEST(Repeat, MayGiveNothing) {
  const Tensor x = RandomTensor(DType::kF32, {2, 3});
  OperatorCase("Tensor.repeat")
      .Param("sizes", "(0,2)")
      .Input(x)
      .ExpectOutputs({Tensor(DType::kF32, {0, 6})});
}

TEST(Repeat, RefusesWrongCounts) {
  const Tensor x = RandomTensor(DType::kF32, {2, 3});
  const auto refuse = [&](const char* sizes, const char* text) {
    OperatorCase("Tensor.repeat")
        .Param("sizes", sizes)
        .Input(x)
        .ExpectError(ErrorCode::kInvalidArgument, text);
  };
  refuse("(2)", "expected a count for each of 2 axes, got 1");
  refuse("(2,-1)", "at least 0");
  refuse("(2147483647,2147483647,2147483647,2147483647)", "");
  refuse("(1,1,1,1,1,1,1,1,1)", "rank 9");
}

TEST(Tile, FillsUpShortCounts) {
  const Tensor x = RandomTensor(DType::kF32, {2, 3});
  OperatorCase("torch.tile").Param("dims", "(2)").Input(x).ExpectOutputs({Tiled(x, {2, 6})});
  OperatorCase("torch.tile").Param("dims", "(2,1,1)").Input(x).ExpectOutputs({Tiled(x, {2, 2, 3})});
  OperatorCase("torch.tile")
      .Input(x, "input")
      .Input(Value::List{3, 2}, "dims")
      .ExpectOutputs({Tiled(x, {6, 6})});
}

}  // namespace
}  // namespace oort::testing
