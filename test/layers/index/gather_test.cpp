// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "layers/shape/moved_elements.h"

namespace oort::testing {
namespace {

Tensor RandomIndices(DType dtype, const Shape& shape, int64_t extent) {
  return RandomTensor(dtype, shape, 5, 0, static_cast<double>(extent - 1));
}

TEST(Gather, PicksAlongEveryAxis) {
  for (DType dtype : MovedDTypes()) {
    const Tensor x = RandomTensor(dtype, {4, 5, 6});
    for (int axis = 0; axis < 3; ++axis) {
      Shape shape{3, 2, 5};  // smaller than x is legal, larger along the axis too
      shape[axis] = 9;
      const Tensor index = RandomIndices(DType::kI64, shape, x.shape()[axis]);
      OperatorCase("torch.gather")
          .Param("dim", std::to_string(axis - 3))
          .Input(x, "input")
          .Input(index, "index")
          .ExpectOutputs({Moved(x, shape, [&](Coordinates at) {
            at[static_cast<size_t>(axis)] = index.data<int64_t>()[FlatIndex(shape, at)];
            return at;
          })});
    }
  }
  OperatorCase("torch.gather")
      .Param("dim", "0")
      .Input(Tensor::Scalar(3.0f), "input")
      .Input(Tensor::From<int64_t>({0, 0}, {2}), "index")
      .ExpectOutputs({Tensor::From<float>({3, 3}, {2})});
}

TEST(Gather, FindsItsInputsByName) {
  const Tensor x = Tensor::From<float>({1, 2, 3}, {3});
  OperatorCase("torch.gather")
      .Param("dim", "0")
      .Input(Tensor::From<int32_t>({2, 0}, {2}), "index")
      .Input(x, "input")
      .ExpectOutputs({Tensor::From<float>({3, 1}, {2})});
}

TEST(Gather, ChecksIndicesWhenItRuns) {
  const Tensor x = RandomTensor(DType::kF32, {3, 2});
  const auto gather = [&](const Tensor& index) {
    return OperatorCase("torch.gather").Param("dim", "0").Input(x, "input").Input(index, "index");
  };
  gather(Tensor::From<int64_t>({0, 3}, {1, 2}))
      .ExpectError(ErrorCode::kInvalidArgument, "index 3 is out of range for an axis of 3");
  gather(Tensor::From<int64_t>({0, -1}, {1, 2}))
      .ExpectError(ErrorCode::kInvalidArgument, "index -1 is out of range");
  gather(Tensor::From<int64_t>({0, INT64_MIN}, {1, 2}))
      .ExpectError(ErrorCode::kInvalidArgument, "out of range");
  for (const int64_t wrong : {int64_t{2}, int64_t{-1}, INT64_MIN, INT64_MAX}) {
    OperatorCase("torch.gather")
        .Param("dim", "1")
        .Input(x, "input")
        .Input(Tensor::From<int64_t>({0, 1, 1, wrong}, {1, 4}), "index")
        .ExpectError(ErrorCode::kInvalidArgument,
                     "index " + std::to_string(wrong) + " is out of range for an axis of 2");
  }
  gather(Tensor::From<int64_t>({0, 0, 0}, {1, 3}))
      .ExpectError(ErrorCode::kInvalidArgument, "an index (1,3) does not fit shape (3,2)");
  gather(Tensor::From<int64_t>({0}, {1})).ExpectError(ErrorCode::kInvalidArgument, "does not fit");
  gather(RandomTensor(DType::kF32, {1, 2})).ExpectError(ErrorCode::kInvalidArgument, "dtype f32");
}

TEST(IndexSelect, PicksSlices) {
  for (DType dtype : MovedDTypes()) {
    const Tensor x = RandomTensor(dtype, {4, 5, 6});
    for (int axis = 0; axis < 3; ++axis) {
      for (DType index_type : {DType::kI64, DType::kI32}) {
        const Tensor index = RandomIndices(index_type, {7}, x.shape()[axis]);
        const Tensor wide = index.To(DType::kI64);
        Shape shape = x.shape();
        shape[axis] = 7;
        OperatorCase("torch.index_select")
            .Param("dim", std::to_string(axis))
            .Input(x, "input")
            .Input(index, "index")
            .ExpectOutputs({Moved(x, shape, [&](Coordinates at) {
              int64_t& along = at[static_cast<size_t>(axis)];
              along = wide.data<int64_t>()[along];
              return at;
            })});
      }
    }
  }
}

TEST(IndexSelect, HandlesEdges) {
  const Tensor x = Tensor::From<float>({1, 2, 3}, {3});
  const auto select = [&](const Tensor& index) {
    return OperatorCase("torch.index_select")
        .Param("dim", "0")
        .Input(x, "input")
        .Input(index, "index");
  };
  select(Tensor(DType::kI64, {0})).ExpectOutputs({Tensor(DType::kF32, {0})});
  select(Tensor::Scalar<int64_t>(1)).ExpectOutputs({Tensor::From<float>({2}, {1})});
  select(Tensor::From<int64_t>({3}, {1})).ExpectError(ErrorCode::kInvalidArgument, "index 3");
  select(Tensor::From<int64_t>({-1}, {1})).ExpectError(ErrorCode::kInvalidArgument, "index -1");
  select(Tensor::From<int64_t>({0}, {1, 1}))
      .ExpectError(ErrorCode::kInvalidArgument, "does not fit");
}

TEST(ScatterAdd, AddsWhereTheIndexPoints) {
  const Tensor x = Tensor::From<float>({1, 2, 3, 4, 5, 6}, {3, 2});
  const Tensor index = Tensor::From<int64_t>({0, 2, 0, 0}, {2, 2});
  const Tensor src = Tensor::From<float>({10, 20, 30, 40, 50, 60}, {3, 2});  // larger than index
  const auto scatter = [&](DType dtype, const char* dim) {
    return OperatorCase("torch.scatter_add")
        .Param("dim", dim)
        .Input(x.To(dtype), "input")
        .Input(index, "index")
        .Input(src.To(dtype), "src");
  };
  for (DType dtype : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16, DType::kI64, DType::kU8,
                      DType::kC64}) {
    scatter(dtype, "0")
        .ExpectOutputs({Tensor::From<float>({41, 42, 3, 4, 5, 26}, {3, 2}).To(dtype)});
  }
  scatter(DType::kF32, "1").ExpectError(ErrorCode::kInvalidArgument, "index 2 is out of range");
  OperatorCase("torch.scatter_add")
      .Param("dim", "0")
      .Input(x, "input")
      .Input(index, "index")
      .Input(src.To(DType::kF64), "src")
      .ExpectError(ErrorCode::kInvalidArgument, "expected a source of dtype f32");
  OperatorCase("torch.scatter_add")
      .Param("dim", "0")
      .Input(x, "input")
      .Input(index, "index")
      .Input(Tensor::From<float>({1, 2}, {1, 2}), "src")
      .ExpectError(ErrorCode::kInvalidArgument, "does not fit shape (1,2)");
}

}  // namespace
}  // namespace oort::testing
