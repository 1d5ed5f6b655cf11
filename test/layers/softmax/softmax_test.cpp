// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>

#include "oort/testing.h"

namespace oort::testing {
namespace {

Tensor Expected(const Tensor& x, int axis, bool log, double sign) {
  Tensor y(DType::kF64, x.shape());
  const bool scalar = x.rank() == 0;
  const int64_t extent = scalar ? 1 : x.shape()[axis];
  const int64_t inner = scalar ? 1 : x.shape().Product(axis + 1, x.rank());
  const double* in = x.data<double>();
  for (int64_t i = 0; i < x.elements(); ++i) {
    const int64_t first = i - i / inner % extent * inner;
    // exp(x_i - x_j) summed over j is 1 / softmax: no maximum needed.
    double sum = 0;
    for (int64_t j = 0; j < extent; ++j) sum += std::exp(sign * (in[first + j * inner] - in[i]));
    y.data<double>()[i] = log ? -std::log(sum) : 1 / sum;
  }
  return y;
}

void ExpectSoftmax(const Tensor& x, int dim, Tolerance tolerance = {}) {
  SCOPED_TRACE(x.ToString() + " along " + std::to_string(dim));
  const int axis = NormalizeAxis(dim, x.rank());
  const auto expect = [&](const std::string& type, bool log, double sign) {
    OperatorCase(type)
        .Param("dim", std::to_string(dim))
        .Input(x)
        .AlsoOnGpu()
        .ExpectLike(
            [&](const std::vector<Tensor>& in) {
              return std::vector<Tensor>{Expected(in[0], axis, log, sign)};
            },
            tolerance);
  };
  expect("F.softmax", false, 1);
  expect("nn.LogSoftmax", true, 1);
  expect("F.softmin", false, -1);
}

TEST(Softmax, RunsAlongAnyAxis) {
  const Tensor x = RandomTensor(DType::kF32, {3, 5, 7, 2}, 3, -5, 5);
  for (int dim : {0, 1, 2, 3, -1, -4}) ExpectSoftmax(x, dim);
  ExpectSoftmax(RandomTensor(DType::kF32, {9}), 0);
  ExpectSoftmax(RandomTensor(DType::kF32, {}), 0);
  ExpectSoftmax(RandomTensor(DType::kF32, {2, 70, 300}), 1);
}

TEST(Softmax, WorksOnEdgeLengths) {
  for (int64_t length : EdgeLengths()) {
    ExpectSoftmax(RandomTensor(DType::kF32, {3, length}, 3, -9, 9), 1);
    ExpectSoftmax(RandomTensor(DType::kF32, {3, length}, 3, -9, 9), 0);
  }
  ExpectSoftmax(Tensor(DType::kF32, {0, 3}), 0);
  ExpectSoftmax(Tensor(DType::kF32, {0, 3}), 1);
}

TEST(Softmax, EveryNameIsTheSame) {
  const Tensor x = RandomTensor(DType::kF64, {2, 3, 4, 5});
  for (const char* type : {"nn.Softmax", "F.softmax", "torch.softmax"}) {
    OperatorCase(type).Param("dim", "2").Input(x).ExpectOutputs({Expected(x, 2, false, 1)});
  }
  for (const char* type : {"nn.LogSoftmax", "F.log_softmax", "torch.log_softmax"}) {
    OperatorCase(type).Param("dim", "2").Input(x).ExpectOutputs({Expected(x, 2, true, 1)});
  }
  for (const char* type : {"nn.Softmin", "F.softmin"}) {
    OperatorCase(type).Param("dim", "2").Input(x).ExpectOutputs({Expected(x, 2, false, -1)});
  }
  OperatorCase("nn.Softmax2d").Input(x).ExpectOutputs({Expected(x, 1, false, 1)});
  const Tensor image = x.Rows(0, 1).Reshaped({3, 4, 5});
  OperatorCase("nn.Softmax2d").Input(image).ExpectOutputs({Expected(image, 0, false, 1)});
}

TEST(Softmax, DoesNotOverflow) {
  const Tensor x = Tensor::From<float>({1e30f, 1e30f, -1e30f, -2e4f, -2e4f, 1e-3f}, {2, 3});
  OperatorCase("F.softmax")
      .Param("dim", "1")
      .Input(x)
      .ExpectOutputs({Tensor::From<float>({0.5, 0.5, 0, 0, 0, 1}, {2, 3})});
  OperatorCase("F.log_softmax")
      .Param("dim", "1")
      .Input(Tensor::From<float>({1000, 0, 0, -1000}, {2, 2}))
      .ExpectOutputs({Tensor::From<float>({0, -1000, 0, -1000}, {2, 2})});
}

TEST(Softmax, NanAndInfinityAreTorchs) {
  const float inf = INFINITY;
  const Tensor x = Tensor::From<float>({-inf, -inf, inf, 1, NAN, 1, -inf, 1}, {4, 2});
  const Tensor columns = Tensor::From<float>({-inf, inf, NAN, -inf, -inf, 1, 1, 1}, {2, 4});
  OperatorCase("F.softmax")
      .Param("dim", "1")
      .Input(x)
      .ExpectOutputs({Tensor::From<float>({NAN, NAN, NAN, NAN, NAN, NAN, 0, 1}, {4, 2})});
  OperatorCase("F.softmax")
      .Param("dim", "0")
      .Input(columns)
      .ExpectOutputs({Tensor::From<float>({NAN, NAN, NAN, 0, NAN, NAN, NAN, 1}, {2, 4})});
  OperatorCase("F.log_softmax")
      .Param("dim", "1")
      .Input(x)
      .ExpectOutputs({Tensor::From<float>({NAN, NAN, NAN, NAN, NAN, NAN, -inf, 0}, {4, 2})});
}

TEST(Softmax, ConvertsFirst) {
  const Tensor x = Tensor::From<int64_t>({1, 2, 3}, {3});
  const Tensor expected = Expected(x.To(DType::kF64), 0, false, 1);
  OperatorCase("torch.softmax")
      .Param("dim", "0")
      .Param("dtype", "torch.double")
      .Input(x)
      .ExpectOutputs({expected});
  OperatorCase("torch.softmax")
      .Param("dim", "0")
      .Input(x)
      .ExpectOutputs({expected.To(DType::kF32)});
}

TEST(Softmax, WithoutAxisItFollowsTheOldRule) {
  for (const Shape& shape : {Shape{4}, Shape{2, 3}, Shape{2, 3, 4}, Shape{2, 3, 4, 5}}) {
    const Tensor x = RandomTensor(DType::kF64, shape);
    const int axis = shape.rank() == 1 || shape.rank() == 3 ? 0 : 1;
    OperatorCase("F.softmax")
        .Param("dim", "None")
        .Input(x)
        .ExpectOutputs({Expected(x, axis, false, 1)});
  }
}

TEST(Softmax, RefusesWhatIsWrong) {
  OperatorCase("F.softmax")
      .Param("dim", "2")
      .Input(RandomTensor(DType::kF32, {2, 3}))
      .ExpectError(ErrorCode::kInvalidArgument, "axis 2 is out of range");
  OperatorCase("nn.Softmax2d")
      .Input(RandomTensor(DType::kF32, {2, 3}))
      .ExpectError(ErrorCode::kInvalidArgument, "rank 3 or 4");
  OperatorCase("F.softmax")
      .Param("dim", "0")
      .Input(Tensor(DType::kC64, {2}))
      .ExpectError(ErrorCode::kInvalidArgument, "has dtype c64");
}

}  // namespace
}  // namespace oort::testing
