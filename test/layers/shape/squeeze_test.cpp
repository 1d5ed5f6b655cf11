// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "moved_elements.h"

namespace oort::testing {
namespace {

TEST(Squeeze, DropsAxesOfOne) {
  const Tensor x = RandomTensor(DType::kI64, {1, 3, 1, 2, 1});
  const auto expect = [&](const char* dim, const Shape& shape) {
    OperatorCase("torch.squeeze").Param("dim", dim).Input(x).ExpectOutputs({x.Reshaped(shape)});
  };
  OperatorCase("torch.squeeze").Input(x).ExpectOutputs({x.Reshaped({3, 2})});
  expect("0", {3, 1, 2, 1});
  expect("-1", {1, 3, 1, 2});
  expect("1", {1, 3, 1, 2, 1});  // not 1: stays
  expect("(0,2)", {3, 2, 1});
  const Tensor scalar = RandomTensor(DType::kF32, {});
  OperatorCase("torch.squeeze").Param("dim", "0").Input(scalar).ExpectOutputs({scalar});
  OperatorCase("torch.squeeze")
      .Param("dim", "5")
      .Input(x)
      .ExpectError(ErrorCode::kInvalidArgument, "axis 5 is out of range");
  OperatorCase("torch.squeeze")
      .Param("dim", "(0,-5)")
      .Input(x)
      .ExpectError(ErrorCode::kInvalidArgument, "appears twice");
}

TEST(Unsqueeze, InsertsAxes) {
  const Tensor x = RandomTensor(DType::kF32, {2, 3});
  const auto expect = [&](const char* dim, const Shape& shape) {
    OperatorCase("torch.unsqueeze").Param("dim", dim).Input(x).ExpectOutputs({x.Reshaped(shape)});
  };
  expect("0", {1, 2, 3});
  expect("2", {2, 3, 1});
  expect("-1", {2, 3, 1});
  expect("-3", {1, 2, 3});
  expect("(0,3)", {1, 2, 3, 1});
  const Tensor scalar = RandomTensor(DType::kF32, {});
  OperatorCase("torch.unsqueeze")
      .Param("dim", "0")
      .Input(scalar)
      .ExpectOutputs({scalar.Reshaped({1})});
  OperatorCase("torch.unsqueeze")
      .Param("dim", "3")
      .Input(x)
      .ExpectError(ErrorCode::kInvalidArgument, "axis 3 is out of range");
  OperatorCase("torch.unsqueeze")
      .Param("dim", "0")
      .Input(RandomTensor(DType::kF32, {1, 1, 1, 1, 1, 1, 1, 1}))
      .ExpectError(ErrorCode::kInvalidArgument, "rank 9");
}

}  // namespace
}  // namespace oort::testing
