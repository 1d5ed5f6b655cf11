// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>

#include "oort/testing.h"

namespace oort::testing {
namespace {

/// Over the rows of two matrices.
std::vector<Tensor> Reference(const std::vector<Tensor>& inputs, double p, double eps,
                              const Shape& output) {
  const Tensor &a = inputs[0], &b = inputs[1];
  const int64_t columns = a.dim(-1);
  Tensor y(DType::kF64, output);
  for (int64_t row = 0; row < y.elements(); ++row) {
    double sum = 0;
    for (int64_t i = row * columns; i < (row + 1) * columns; ++i) {
      const double d = std::abs(a.data<double>()[i] - b.data<double>()[i] + eps);
      sum = std::isinf(p) ? std::max(sum, d) : sum + (p == 0 ? (d != 0) : std::pow(d, p));
    }
    y.data<double>()[row] = std::isinf(p) || p == 0 ? sum : std::pow(sum, 1 / p);
  }
  return {y};
}

TEST(PairwiseDistance, MatchesItsFormula) {
  for (const double p : {2.0, 1.0, 0.0, 3.0, 0.5, static_cast<double>(INFINITY)}) {
    SCOPED_TRACE(p);
    OperatorCase("F.pairwise_distance")
        .Param("p", std::isinf(p) ? "inf" : std::to_string(p))
        .Param("eps", "0.01")
        .Param("keepdim", "True")
        .Input(RandomTensor(DType::kF32, {3, 7}, 1), "x1")
        .Input(RandomTensor(DType::kF32, {3, 7}, 2), "x2")
        .ExpectLike(
            [&](const std::vector<Tensor>& in) {
              return Reference(in, p, 0.01, {3, 1});
            },
            p == 0.5 ? Tolerance{1e-3, 1e-2} : Tolerance{});
  }
}

TEST(PairwiseDistance, TakesOtherRanks) {
  OperatorCase("F.pairwise_distance")
      .Input(RandomTensor(DType::kF32, {2, 3, 5}, 1))
      .Input(RandomTensor(DType::kF32, {2, 3, 5}, 2))
      .ExpectLike([](const std::vector<Tensor>& in) {
        return Reference(in, 2, 1e-6, {2, 3});
      });
  OperatorCase("F.pairwise_distance")
      .Input(RandomTensor(DType::kF32, {5}, 1))
      .Input(RandomTensor(DType::kF32, {5}, 2))
      .ExpectLike([](const std::vector<Tensor>& in) { return Reference(in, 2, 1e-6, {}); });
}

TEST(PairwiseDistance, Broadcasts) {
  OperatorCase("F.pairwise_distance")
      .Param("eps", "0")
      .Param("p", "1.0")
      .Input(Tensor::From<float>({1, 2, 3, 4}, {2, 2}))
      .Input(Tensor::From<float>({1}, {1}))
      .ExpectOutputs({Tensor::From<float>({1, 5}, {2})});
  OperatorCase("F.pairwise_distance")
      .Param("eps", "0")
      .Param("p", "1.0")
      .Input(Tensor::From<float>({1, 2}, {1, 2}))
      .Input(Tensor::From<double>({1, 2, 0, 0}, {2, 2}))
      .ExpectOutputs({Tensor::From<double>({0, 3}, {2})});
}

TEST(PairwiseDistance, OfNothing) {
  const auto pair = [](Shape shape) {
    return OperatorCase("F.pairwise_distance")
        .Input(RandomTensor(DType::kF32, shape))
        .Input(RandomTensor(DType::kF32, shape));
  };
  pair({0, 3}).ExpectOutputs({Tensor(DType::kF32, {0})});
  pair({2, 0}).ExpectOutputs({Tensor::Zeros(DType::kF32, {2})});
  pair({2, 0}).Param("p", "inf").ExpectError(ErrorCode::kInvalidArgument, "");
  pair({}).ExpectError(ErrorCode::kInvalidArgument, "expected vectors");
}

TEST(PairwiseDistance, RefusesWhatDoesNotFit) {
  const Tensor x = RandomTensor(DType::kF32, {3, 4});
  OperatorCase("F.pairwise_distance")
      .Input(x)
      .Input(RandomTensor(DType::kF32, {3, 5}))
      .ExpectError(ErrorCode::kInvalidArgument, "broadcast");
  OperatorCase("F.pairwise_distance")
      .Input(x.To(DType::kBool))
      .Input(x)
      .ExpectError(ErrorCode::kInvalidArgument, "bool");
  OperatorCase("F.pairwise_distance")
      .Param("p", "big")
      .Input(x)
      .Input(x)
      .ExpectError(ErrorCode::kUnsupported, "p=big");
}

}  // namespace
}  // namespace oort::testing
