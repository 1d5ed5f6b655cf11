// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <limits>

#include "oort/testing.h"

namespace oort::testing {
namespace {

constexpr float kNmsNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kNmsInf = std::numeric_limits<float>::infinity();

OperatorCase NmsCase(const std::string& threshold, const Tensor& boxes, const Tensor& scores) {
  return OperatorCase("pnnx.custom_op.torchvision.nms")
      .Param("arg_2", threshold)
      .Input(boxes, "arg_0")
      .Input(scores, "arg_1");
}

Tensor Indices(std::initializer_list<int64_t> values) {
  return Tensor::From<int64_t>(values, {static_cast<int64_t>(values.size())});
}

/// From torchvision; NaN counts as the highest score, and ties keep their order.
TEST(Nms, KeepsTheBest) {
  const Tensor boxes =
      Tensor::From<float>({0, 0, 2, 2, 0, 0, 2, 2, 0, 1, 2, 3, 5, 5, 6, 6, 5, 5, 6, 6.1f}, {5, 4});
  const Tensor scores = Tensor::From<float>({0.5f, 0.5f, 0.9f, 0.1f, kNmsNan}, {5});
  for (DType dtype : {DType::kF32, DType::kF64}) {
    const auto expect = [&](const std::string& threshold, std::initializer_list<int64_t> kept) {
      NmsCase(threshold, boxes.To(dtype), scores.To(dtype)).ExpectOutputs({Indices(kept)});
    };
    expect("0.2", {4, 2});
    expect("0.4", {4, 2, 0});
    expect("0.95", {4, 2, 0, 3});
    expect("1.0", {4, 2, 0, 1, 3});
  }
}

TEST(Nms, SurvivesAnyBox) {
  const Tensor boxes =
      Tensor::From<float>({0,       0, kNmsNan, 2,     0,     0,     2,     2,     -kNmsInf, 0,
                           kNmsInf, 2, 1e30f,   1e30f, 2e30f, 2e30f, 1e30f, 1e30f, 2e30f,    2e30f},
                          {5, 4});
  NmsCase("0.5", boxes, Tensor::From<float>({0.5f, 0.4f, 0.3f, 0.2f, 0.1f}, {5}))
      .ExpectOutputs({Indices({0, 1, 2, 3, 4})});
  NmsCase("0.5", Tensor(DType::kF32, {0, 4}), Tensor(DType::kF32, {0}))
      .ExpectOutputs({Indices({})});
}

TEST(Nms, RefusesWhatIsWrong) {
  const Tensor boxes = Tensor::Zeros(DType::kF32, {3, 4}), scores = Tensor::Zeros(DType::kF32, {3});
  const auto expect = [](const Tensor& a, const Tensor& b, std::string_view message) {
    NmsCase("0.5", a, b).ExpectError(ErrorCode::kInvalidArgument, message);
  };
  expect(boxes.Reshaped({12}), scores, "boxes of shape (N,4)");
  expect(boxes.Reshaped({4, 3}), scores, "boxes of shape (N,4)");
  expect(boxes, Tensor::Zeros(DType::kF32, {2}), "scores of shape (N)");
  expect(boxes, scores.Reshaped({3, 1}), "scores of shape (N)");
  expect(boxes, scores.To(DType::kF64), "of one dtype");
  expect(boxes.To(DType::kI64), scores, "dtype i64");
}

}  // namespace
}  // namespace oort::testing
