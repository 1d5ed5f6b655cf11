// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>

#include "moved_elements.h"

namespace oort::testing {
namespace {

Tensor Permuted(const Tensor& x, const std::vector<int64_t>& order) {
  Shape shape;
  for (int64_t axis : order) shape.Append(x.shape()[static_cast<int>(axis)]);
  return Moved(x, shape, [&](const Coordinates& at) {
    Coordinates from(at.size());
    for (size_t i = 0; i < order.size(); ++i) from[static_cast<size_t>(order[i])] = at[i];
    return from;
  });
}

TEST(Permute, ReordersAxesOfAnyDType) {
  std::vector<int64_t> order = {0, 1, 2, 3};
  do {
    for (DType dtype : MovedDTypes()) {
      const Tensor x = RandomTensor(dtype, {2, 3, 4, 5});
      OperatorCase("Tensor.permute")
          .Param("dims", ListText(order))
          .Input(x)
          .ExpectOutputs({Permuted(x, order)});
    }
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(Permute, TakesAnyRankAndNegativeAxes) {
  const Tensor eight = RandomTensor(DType::kF32, {2, 1, 3, 2, 1, 2, 3, 2});
  OperatorCase("torch.permute")
      .Param("dims", "(7,-7,5,0,3,-2,2,4)")
      .Input(eight)
      .ExpectOutputs({Permuted(eight, {7, 1, 5, 0, 3, 6, 2, 4})});
  const Tensor scalar = RandomTensor(DType::kF32, {});
  OperatorCase("Tensor.permute").Param("dims", "None").Input(scalar).ExpectOutputs({scalar});
  const Tensor empty = RandomTensor(DType::kF32, {2, 0, 3});
  OperatorCase("Tensor.permute")
      .Param("dims", "(2,0,1)")
      .Input(empty)
      .ExpectOutputs({empty.Reshaped({3, 2, 0})});
}

TEST(Permute, WorksAtEverySizeAroundTheTiles) {
  for (int64_t rows : EdgeLengths()) {
    const Tensor x = RandomTensor(DType::kF32, {rows, 33});
    OperatorCase("torch.t").Input(x).ExpectOutputs({Permuted(x, {1, 0})});
  }
}

TEST(Permute, RefusesWrongOrders) {
  const Tensor x = RandomTensor(DType::kF32, {2, 3, 4});
  const auto refuse = [&](const char* dims, const char* text) {
    OperatorCase("Tensor.permute")
        .Param("dims", dims)
        .Input(x)
        .ExpectError(ErrorCode::kInvalidArgument, text);
  };
  refuse("(0,1)", "expected an order of 3 axes");
  refuse("(0,1,1)", "appears twice");
  refuse("(0,1,-2)", "appears twice");
  refuse("(0,1,3)", "axis 3 is out of range");
  refuse("None", "expected an order of 3 axes");
}

TEST(Transpose, SwapsTwoAxes) {
  const Tensor x = RandomTensor(DType::kF32, {2, 3, 4});
  OperatorCase("torch.transpose")
      .Param("dim0", "1")
      .Param("dim1", "-1")
      .Input(x)
      .ExpectOutputs({Permuted(x, {0, 2, 1})});
  OperatorCase("torch.transpose")
      .Param("dim0", "2")
      .Param("dim1", "0")
      .Input(x)
      .ExpectOutputs({Permuted(x, {2, 1, 0})});
  const Tensor scalar = RandomTensor(DType::kF32, {});
  OperatorCase("torch.transpose")
      .Param("dim0", "0")
      .Param("dim1", "-1")
      .Input(scalar)
      .ExpectOutputs({scalar});
  OperatorCase("torch.transpose")
      .Param("dim0", "0")
      .Param("dim1", "3")
      .Input(x)
      .ExpectError(ErrorCode::kInvalidArgument, "axis 3 is out of range");
}

TEST(MatrixTranspose, LeavesVectorsAlone) {
  const Tensor vector = RandomTensor(DType::kF32, {5}), scalar = RandomTensor(DType::kF32, {});
  OperatorCase("torch.t").Input(vector).ExpectOutputs({vector});
  OperatorCase("torch.t").Input(scalar).ExpectOutputs({scalar});
  OperatorCase("torch.t")
      .Input(RandomTensor(DType::kF32, {2, 2, 2}))
      .ExpectError(ErrorCode::kInvalidArgument, "rank of at most 2");
}

}  // namespace
}  // namespace oort::testing
