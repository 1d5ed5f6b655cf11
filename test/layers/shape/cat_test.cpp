// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "moved_elements.h"

namespace oort::testing {
namespace {

Tensor Joined(const std::vector<Tensor>& parts, int axis) {
  Shape shape = parts[0].shape();
  shape[axis] = 0;
  for (const Tensor& part : parts) shape[axis] += part.shape()[axis];
  Tensor result(parts[0].dtype(), shape);
  const size_t item = ItemSize(result.dtype());
  for (int64_t i = 0; i < result.elements(); ++i) {
    Coordinates at = CoordinatesOf(shape, i);
    size_t part = 0;
    int64_t& along = at[static_cast<size_t>(axis)];
    while (along >= parts[part].shape()[axis]) along -= parts[part++].shape()[axis];
    const int64_t from = FlatIndex(parts[part].shape(), at);
    std::memcpy(result.raw() + static_cast<size_t>(i) * item,
                parts[part].raw() + static_cast<size_t>(from) * item, item);
  }
  return result;
}

OperatorCase Case(const char* type, const char* dim, const std::vector<Tensor>& parts) {
  OperatorCase test(type);
  test.Param("dim", dim);
  for (const Tensor& part : parts) test.Input(part);
  return test;
}

TEST(Cat, JoinsAlongEveryAxis) {
  for (DType dtype : MovedDTypes()) {
    for (int axis = 0; axis < 3; ++axis) {
      std::vector<Tensor> parts;
      for (int64_t length : {2, 1, 0, 5}) {
        Shape shape{3, 4, 2};
        shape[axis] = length;
        parts.push_back(RandomTensor(dtype, shape, static_cast<uint64_t>(length + 1)));
      }
      Case("torch.cat", std::to_string(axis).c_str(), parts).ExpectOutputs({Joined(parts, axis)});
      Case("torch.cat", std::to_string(axis - 3).c_str(), parts)
          .ExpectOutputs({Joined(parts, axis)});
    }
  }
}

TEST(Cat, SharesLargeCopiesBetweenThreads) {
  const std::vector<Tensor> parts = {RandomTensor(DType::kF32, {2, 40, 1000}),
                                     RandomTensor(DType::kF32, {2, 3, 1000}, 2)};
  Case("torch.cat", "1", parts).ExpectOutputs({Joined(parts, 1)});
}

TEST(Cat, IgnoresEmptyVectors) {
  const Tensor x = RandomTensor(DType::kF32, {2, 3}), empty(DType::kF32, {0});
  Case("torch.cat", "1", {empty, x, x}).ExpectOutputs({Joined({x, x}, 1)});
  Case("torch.cat", "0", {empty, empty}).ExpectOutputs({empty});
}

TEST(Cat, PromotesDTypes) {
  const Tensor ints = Tensor::From<int64_t>({1, -2}, {2});
  const Tensor bools = Tensor::From<bool>({true, false}, {2});
  Case("torch.cat", "0", {bools, ints}).ExpectOutputs({Tensor::From<int64_t>({1, 0, 1, -2}, {4})});
  // An empty vector adds no elements, but its dtype counts.
  Case("torch.cat", "0", {Tensor(DType::kF32, {0}), ints})
      .ExpectOutputs({Tensor::From<float>({1, -2}, {2})});
}

TEST(Cat, RefusesWhatDoesNotFit) {
  const Tensor x = RandomTensor(DType::kF32, {2, 3});
  Case("torch.cat", "0", {x, RandomTensor(DType::kF32, {2, 4})})
      .ExpectError(ErrorCode::kInvalidArgument, "shapes (2,3) and (2,4) do not join along axis 0");
  Case("torch.cat", "0", {x, RandomTensor(DType::kF32, {2, 3, 1})})
      .ExpectError(ErrorCode::kInvalidArgument, "do not join");
  Case("torch.cat", "2", {x, x}).ExpectError(ErrorCode::kInvalidArgument, "axis 2 is out of range");
  const Tensor scalar = RandomTensor(DType::kF32, {});
  Case("torch.cat", "0", {scalar, scalar}).ExpectError(ErrorCode::kInvalidArgument, "scalars");
  OperatorCase("torch.cat")
      .Param("dim", "0")
      .ExpectError(ErrorCode::kInvalidArgument, "at least one tensor");
}

TEST(Stack, AddsAnAxis) {
  for (DType dtype : MovedDTypes()) {
    const Tensor a = RandomTensor(dtype, {3, 4}), b = RandomTensor(dtype, {3, 4}, 2);
    for (int axis = 0; axis <= 2; ++axis) {
      Shape shape{3, 4};
      shape.Insert(axis, 1);
      const Tensor expected = Joined({a.Reshaped(shape), b.Reshaped(shape)}, axis);
      Case("torch.stack", std::to_string(axis).c_str(), {a, b}).ExpectOutputs({expected});
      Case("torch.stack", std::to_string(axis - 3).c_str(), {a, b}).ExpectOutputs({expected});
    }
  }
  const Tensor one = Tensor::Scalar(1.0f), two = Tensor::Scalar(2.0f);
  Case("torch.stack", "0", {one, two}).ExpectOutputs({Tensor::From<float>({1, 2}, {2})});
}

TEST(Stack, RefusesWhatDoesNotFit) {
  const Tensor x = RandomTensor(DType::kF32, {2, 3});
  Case("torch.stack", "3", {x, x}).ExpectError(ErrorCode::kInvalidArgument, "axis 3");
  Case("torch.stack", "0", {x, RandomTensor(DType::kF32, {3, 2})})
      .ExpectError(ErrorCode::kInvalidArgument, "do not join");
}

}  // namespace
}  // namespace oort::testing
