// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "layers/shape/moved_elements.h"

namespace oort::testing {
namespace {

Tensor Rows(const Tensor& weight, const Tensor& indices) {
  Shape shape = indices.shape();
  shape.Append(weight.shape()[1]);
  const Tensor wide = indices.To(DType::kI64);
  return Moved(weight, shape, [&](Coordinates at) {
    const int64_t column = at.back();
    at.pop_back();
    return Coordinates{wide.data<int64_t>()[FlatIndex(wide.shape(), at)], column};
  });
}

OperatorCase Module(const Tensor& indices, const Tensor& weight) {
  return OperatorCase("nn.Embedding")
      .Param("num_embeddings", "10")
      .Param("embedding_dim", "7")
      .Param("sparse", "False")
      .Attribute("weight", weight)
      .Input(indices);
}

TEST(Embedding, LooksRowsUp) {
  const Tensor weight = RandomTensor(DType::kF32, {10, 7});
  for (DType dtype : {DType::kI32, DType::kI64}) {
    for (const Shape& shape : {Shape{}, Shape{5}, Shape{2, 3}, Shape{0, 3}, Shape{1031}}) {
      const Tensor indices = RandomTensor(dtype, shape, 3, 0, 9);
      Module(indices, weight).ExpectOutputs({Rows(weight, indices)});
      OperatorCase("F.embedding")
          .Param("scale_grad_by_freq", "False")
          .Param("sparse", "False")
          .Input(indices, "input")
          .Input(weight, "weight")
          .ExpectOutputs({Rows(weight, indices)});
    }
  }
}

TEST(Embedding, ComputesHalfModelsInF32) {
  const Tensor indices = Tensor::From<int64_t>({9, 0, 4}, {3});
  for (DType dtype : {DType::kF16, DType::kBF16}) {
    const Tensor weight = RandomTensor(dtype, {10, 7});
    Module(indices, weight).ExpectOutputs({Rows(weight.To(DType::kF32), indices)}, {0, 0});
    OperatorCase("F.embedding")
        .Input(indices, "input")
        .Input(weight, "weight")
        .ExpectOutputs({Rows(weight, indices)});
  }
  const Tensor exact = RandomTensor(DType::kF64, {10, 7});
  Module(indices, exact).ExpectOutputs({Rows(exact, indices)});
}

TEST(Embedding, ChecksIndicesWhenItRuns) {
  const Tensor weight = RandomTensor(DType::kF32, {10, 7});
  Module(Tensor::From<int64_t>({0, 10}, {2}), weight)
      .ExpectError(ErrorCode::kInvalidArgument, "index 10 is out of range for an axis of 10");
  Module(Tensor::From<int64_t>({-1}, {1}), weight)
      .ExpectError(ErrorCode::kInvalidArgument, "index -1 is out of range");
  Module(RandomTensor(DType::kF32, {2}), weight)
      .ExpectError(ErrorCode::kInvalidArgument, "dtype f32");
  Module(Tensor::From<int64_t>({0}, {1}), RandomTensor(DType::kF32, {10}))
      .ExpectError(ErrorCode::kInvalidArgument, "expected a table of rows");
}

}  // namespace
}  // namespace oort::testing
