// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "oort/testing.h"

namespace oort::testing {
namespace {

/// For inputs without ties: values and positions, best first.
std::vector<Tensor> Expected(const Tensor& x, int axis, int64_t k, bool largest) {
  Shape shape = x.shape();
  shape[axis] = k;
  Tensor values(DType::kF64, shape), indices(DType::kI64, shape);
  const int64_t inner = shape.Product(axis + 1, shape.rank()), extent = x.shape()[axis];
  for (int64_t outer = 0; outer < shape.Product(0, axis); ++outer) {
    for (int64_t column = 0; column < inner; ++column) {
      const auto at = [&](int64_t i) {
        return x.data<double>()[(outer * extent + i) * inner + column];
      };
      std::vector<int64_t> order(static_cast<size_t>(extent));
      std::iota(order.begin(), order.end(), 0);
      std::sort(order.begin(), order.end(),
                [&](int64_t a, int64_t b) { return largest ? at(a) > at(b) : at(a) < at(b); });
      for (int64_t i = 0; i < k; ++i) {
        const int64_t to = (outer * k + i) * inner + column;
        values.data<double>()[to] = at(order[static_cast<size_t>(i)]);
        indices.data<int64_t>()[to] = order[static_cast<size_t>(i)];
      }
    }
  }
  return {values, indices};
}

/// Elements 0, 7, 14, … modulo a prime: no ties, and exact in every dtype.
Tensor Distinct(const Shape& shape, int64_t prime) {
  Tensor x(DType::kF32, shape);
  for (int64_t i = 0; i < x.elements(); ++i) {
    x.data<float>()[i] = static_cast<float>(i * 7 % prime) - 50;
  }
  return x;
}

TEST(TopK, SortsTheBest) {
  for (int axis : {0, 1, 2}) {
    for (int64_t k : {0, 1, 3, 5}) {
      for (bool largest : {true, false}) {
        OperatorCase("torch.topk")
            .Param("k", std::to_string(k))
            .Param("dim", std::to_string(axis))
            .Param("largest", largest ? "True" : "False")
            .Input(Distinct({5, 6, 7}, 211))
            .Outputs(2)
            .ExpectLike(
                [&](const std::vector<Tensor>& in) { return Expected(in[0], axis, k, largest); });
      }
    }
  }
  // Few of many take another way.
  OperatorCase("torch.topk")
      .Param("k", "2")
      .Input(Distinct({2, 200}, 401))
      .Outputs(2)
      .ExpectLike([&](const std::vector<Tensor>& in) { return Expected(in[0], 1, 2, true); },
                  {0.5, 0});
}

/// Runs of elements that are worse than all found are passed over; the best may stand anywhere.
TEST(TopK, FindsTheBestOfLongLines) {
  for (const int64_t extent : {192, 193, 223, 224, 225, 255, 1000, 3001}) {
    const Tensor x = Distinct({2, extent}, 7919);
    for (const bool largest : {true, false}) {
      SCOPED_TRACE(std::to_string(extent) + (largest ? " largest" : " smallest"));
      const std::vector<Tensor> expected = Expected(x.To(DType::kF64), 1, 3, largest);
      OperatorCase("torch.topk")
          .Param("k", "3")
          .Param("largest", largest ? "True" : "False")
          .Input(x)
          .Outputs(2)
          .ExpectOutputs({expected[0].To(DType::kF32), expected[1]});
    }
  }
  // Rising, so that each is better than all before; and NaN, wherever it stands in a run.
  Tensor rising(DType::kF32, {300});
  for (int64_t i = 0; i < 300; ++i) rising.data<float>()[i] = static_cast<float>(i);
  OperatorCase("torch.topk")
      .Param("k", "2")
      .Input(rising)
      .Outputs(2)
      .ExpectOutputs(
          {Tensor::From<float>({299, 298}, {2}), Tensor::From<int64_t>({299, 298}, {2})});
  for (const int64_t at : {0, 2, 33, 65, 290, 299}) {
    Tensor x(DType::kF32, {300});
    for (int64_t i = 0; i < 300; ++i) x.data<float>()[i] = static_cast<float>(-i - 1);
    x.data<float>()[at] = NAN;
    const int64_t best = at == 0 ? 1 : 0;
    OperatorCase("torch.topk")
        .Param("k", "2")
        .Input(x)
        .Outputs(2)
        .ExpectOutputs({Tensor::From<float>({NAN, static_cast<float>(-best - 1)}, {2}),
                        Tensor::From<int64_t>({at, best}, {2})});
  }
}

TEST(TopK, TakesIntegersAndScalars) {
  for (DType dtype : {DType::kI8, DType::kI16, DType::kI32, DType::kI64}) {
    const Tensor x = Distinct({3, 30}, 97).To(dtype);
    const std::vector<Tensor> expected = Expected(x.To(DType::kF64), 1, 4, true);
    OperatorCase("torch.topk")
        .Param("k", "4")
        .Input(x)
        .Outputs(2)
        .ExpectOutputs({expected[0].To(dtype), expected[1]});
  }
  OperatorCase("torch.topk")
      .Param("k", "1")
      .Input(Tensor::Scalar(3.0f))
      .Outputs(2)
      .ExpectOutputs({Tensor::Scalar(3.0f), Tensor::Scalar<int64_t>(0)});
}

TEST(TopK, NanIsTheLargest) {
  const Tensor x = Tensor::From<float>({1, NAN, 3, -INFINITY}, {4});
  OperatorCase("torch.topk")
      .Param("k", "3")
      .Input(x)
      .Outputs(2)
      .ExpectOutputs(
          {Tensor::From<float>({NAN, 3, 1}, {3}), Tensor::From<int64_t>({1, 2, 0}, {3})});
  OperatorCase("torch.topk")
      .Param("k", "4")
      .Param("largest", "False")
      .Input(x)
      .Outputs(2)
      .ExpectOutputs({Tensor::From<float>({-INFINITY, 1, 3, NAN}, {4}),
                      Tensor::From<int64_t>({3, 0, 2, 1}, {4})});
}

TEST(TopK, UnsortedIsStillTheBest) {
  const std::vector<Tensor> got = OperatorCase("torch.topk")
                                      .Param("k", "5")
                                      .Param("sorted", "False")
                                      .Input(Distinct({20}, 97))
                                      .Outputs(2)
                                      .Run();
  const std::vector<Tensor> want = Expected(Distinct({20}, 97).To(DType::kF64), 0, 5, true);
  std::vector<int64_t> a(got[1].span<int64_t>().begin(), got[1].span<int64_t>().end());
  std::vector<int64_t> b(want[1].span<int64_t>().begin(), want[1].span<int64_t>().end());
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  EXPECT_EQ(a, b);
}

TEST(TopK, TakesKFromTheGraphAndNoElements) {
  OperatorCase("torch.topk")
      .Input(Tensor::From<float>({1, 2, 3}, {3}), "input")
      .Input(Value(2), "k")
      .Outputs(2)
      .ExpectOutputs({Tensor::From<float>({3, 2}, {2}), Tensor::From<int64_t>({2, 1}, {2})});
  OperatorCase("torch.topk")
      .Param("k", "0")
      .Param("dim", "0")
      .Input(Tensor(DType::kF32, {0, 3}))
      .Outputs(2)
      .ExpectOutputs({Tensor(DType::kF32, {0, 3}), Tensor(DType::kI64, {0, 3})});
}

TEST(TopK, RefusesWhatIsWrong) {
  const auto expect = [](const std::string& k, const std::string& dim, std::string_view message) {
    OperatorCase("torch.topk")
        .Param("k", k)
        .Param("dim", dim)
        .Input(RandomTensor(DType::kF32, {2, 3}))
        .Outputs(2)
        .ExpectError(ErrorCode::kInvalidArgument, message);
  };
  expect("4", "1", "k=4 is not in [0, 3]");
  expect("-1", "1", "k=-1 is not in [0, 3]");
  expect("1", "2", "axis 2 is out of range");
  OperatorCase("torch.topk")
      .Param("k", "1")
      .Input(Tensor(DType::kBool, {2}))
      .Outputs(2)
      .ExpectError(ErrorCode::kInvalidArgument, "has dtype bool");
}

}  // namespace
}  // namespace oort::testing
