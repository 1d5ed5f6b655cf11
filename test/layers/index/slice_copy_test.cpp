// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "layers/shape/moved_elements.h"

namespace oort::testing {
namespace {

TEST(SliceCopy, ReplacesTheRegion) {
  const Tensor x = RangeTensor(DType::kF32, {3, 4});
  const auto copy = [&](const Tensor& src) {
    return OperatorCase("Tensor.slice_copy").Input(x, "self").Input(src, "src");
  };
  // x[0:2] = src
  copy(Tensor::From<float>({-1, -2, -3, -4, -5, -6, -7, -8}, {2, 4}))
      .Param("dim", "0")
      .Param("start", "0")
      .Param("end", "2")
      .Param("step", "1")
      .ExpectOutputs({Tensor::From<float>({-1, -2, -3, -4, -5, -6, -7, -8, 8, 9, 10, 11}, {3, 4})});
  // x[:, 1::2] = src, repeated and converted
  copy(Tensor::From<int64_t>({-1, -2, -3}, {3, 1}))
      .Param("dim", "1")
      .Param("start", "1")
      .Param("end", "2147483647")
      .Param("step", "2")
      .ExpectOutputs({Tensor::From<float>({0, -1, 2, -1, 4, -2, 6, -2, 8, -3, 10, -3}, {3, 4})});
  // x[1] = src, the way pnnx writes a select
  copy(Tensor::Scalar(-1.0f))
      .Param("dim", "0")
      .Param("start", "0")
      .Param("end", "0")
      .Param("step", "0")
      .Param("select", "1")
      .ExpectOutputs({Tensor::From<float>({0, 1, 2, 3, -1, -1, -1, -1, 8, 9, 10, 11}, {3, 4})});
  // x[2, 1:3] = src
  copy(Tensor::From<float>({-1, -2}, {2}))
      .Param("dims", "(0,1)")
      .Param("starts", "(0,1)")
      .Param("ends", "(0,3)")
      .Param("steps", "(0,1)")
      .Param("selects", "(2,2147483647)")
      .ExpectOutputs({Tensor::From<float>({0, 1, 2, 3, 4, 5, 6, 7, 8, -1, -2, 11}, {3, 4})});
}

TEST(SliceCopy, TakesComputedBounds) {
  const Tensor x = RangeTensor(DType::kF32, {4});
  OperatorCase("Tensor.slice_copy")
      .Param("dim", "0")
      .Param("end", "2147483647")
      .Param("step", "1")
      .Input(x, "self")
      .Input(Tensor::Scalar(9.0f), "src")
      .Input(Tensor::Scalar<int64_t>(2), "start")
      .ExpectOutputs({Tensor::From<float>({0, 1, 9, 9}, {4})});
}

TEST(SliceCopy, RefusesWhatDoesNotFit) {
  OperatorCase("Tensor.slice_copy")
      .Param("dim", "0")
      .Param("start", "0")
      .Param("end", "2")
      .Param("step", "1")
      .Input(RangeTensor(DType::kF32, {3, 4}), "self")
      .Input(RangeTensor(DType::kF32, {3, 4}), "src")
      .ExpectError(ErrorCode::kInvalidArgument, "src (3,4) does not fit the region (2,4)");
}

TEST(SliceScatter, ReplacesASlice) {
  const Tensor x = RangeTensor(DType::kF32, {2, 5});
  OperatorCase("torch.slice_scatter")
      .Param("dim", "1")
      .Param("start", "1")
      .Param("end", "None")
      .Param("step", "2")
      .Input(x, "input")
      .Input(Tensor::From<float>({-1, -2, -3, -4}, {2, 2}), "src")
      .ExpectOutputs({Tensor::From<float>({0, -1, 2, -2, 4, 5, -3, 7, -4, 9}, {2, 5})});
  OperatorCase("torch.slice_scatter")
      .Param("dim", "1")
      .Param("start", "1")
      .Param("end", "2")
      .Param("step", "1")
      .Input(x, "input")
      .Input(Tensor::Scalar(1.0f), "src")
      .ExpectError(ErrorCode::kInvalidArgument, "does not fit the region (2,1)");
}

TEST(SelectScatter, ReplacesAPosition) {
  OperatorCase("torch.select_scatter")
      .Param("dim", "0")
      .Param("index", "-1")
      .Input(RangeTensor(DType::kF32, {2, 2}), "input")
      .Input(Tensor::From<float>({8, 9}, {2}), "src")
      .ExpectOutputs({Tensor::From<float>({0, 1, 8, 9}, {2, 2})});
}

TEST(Copy, TakesShapeAndDTypeFromSelf) {
  OperatorCase("Tensor.copy")
      .Input(RangeTensor(DType::kF32, {2, 2}), "self")
      .Input(Tensor::From<int64_t>({8, 9}, {2}), "src")
      .ExpectOutputs({Tensor::From<float>({8, 9, 8, 9}, {2, 2})});
}

}  // namespace
}  // namespace oort::testing
