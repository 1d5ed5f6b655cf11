// SPDX-License-Identifier: MIT
// Random operators: shapes, dtypes, distributions, and that a seed brings the same numbers again.
#include "oort/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "oort/testing.h"

namespace oort::testing {
namespace {

struct Statistics {
  double mean = 0, variance = 0, min = 0, max = 0;
};

Statistics StatisticsOf(const Tensor& tensor) {
  const Tensor wide = tensor.To(DType::kF64);
  const std::span<const double> x = wide.span<double>();
  Statistics s;
  s.mean = std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
  for (double v : x) s.variance += (v - s.mean) * (v - s.mean) / static_cast<double>(x.size());
  s.min = *std::min_element(x.begin(), x.end());
  s.max = *std::max_element(x.begin(), x.end());
  return s;
}

OperatorCase Sized(const std::string& type) {
  return OperatorCase(type).Param("size", "(100,100)");
}

TEST(Random, RandIsUniform) {
  SetRandomSeed(1);
  const Tensor y = Sized("torch.rand").Run()[0];
  EXPECT_EQ(y.ToString(), "(100,100)f32");
  const Statistics s = StatisticsOf(y);
  EXPECT_NEAR(s.mean, 0.5, 0.02);
  EXPECT_NEAR(s.variance, 1.0 / 12, 0.005);
  EXPECT_GE(s.min, 0);
  EXPECT_LE(s.max, 1);
}

TEST(Random, NormalHasMeanAndDeviation) {
  SetRandomSeed(1);
  const Statistics n = StatisticsOf(Sized("torch.randn").Run()[0]);
  EXPECT_NEAR(n.mean, 0, 0.05);
  EXPECT_NEAR(n.variance, 1, 0.05);
  const Statistics s =
      StatisticsOf(Sized("torch.normal").Param("mean", "3.0").Param("std", "0.5").Run()[0]);
  EXPECT_NEAR(s.mean, 3, 0.03);
  EXPECT_NEAR(s.variance, 0.25, 0.02);
}

TEST(Random, IntegersLieInTheirRange) {
  SetRandomSeed(1);
  const Tensor y = Sized("torch.randint").Param("low", "-2").Param("high", "4").Run()[0];
  EXPECT_EQ(y.dtype(), DType::kI64);
  const Statistics s = StatisticsOf(y);
  EXPECT_EQ(s.min, -2);
  EXPECT_EQ(s.max, 3);
  EXPECT_NEAR(s.mean, 0.5, 0.1);
  Sized("torch.randint")
      .Param("low", "4")
      .Param("high", "4")
      .ExpectError(ErrorCode::kInvalidArgument, "low < high");
}

TEST(Random, LikeTakesShapeAndDType) {
  const Tensor x(DType::kF64, {3, 0, 2});
  EXPECT_EQ(OperatorCase("torch.rand_like").Input(x).Run()[0].ToString(), "(3,0,2)f64");
  EXPECT_EQ(OperatorCase("aten::randn_like").Input(x).Run()[0].ToString(), "(3,0,2)f64");
  OperatorCase("torch.rand_like")
      .Input(Tensor::Zeros(DType::kI64, {2}))
      .ExpectError(ErrorCode::kUnsupported, "i64");
}

TEST(Random, BernoulliFollowsItsProbabilities) {
  SetRandomSeed(1);
  Tensor p = Tensor::Zeros(DType::kF32, {3, 4000});
  std::fill(p.data<float>() + 4000, p.data<float>() + 8000, 0.25f);
  std::fill(p.data<float>() + 8000, p.data<float>() + 12000, 1.0f);
  const Tensor y = OperatorCase("torch.bernoulli").Input(p).Run()[0];
  double sums[3] = {};
  for (int64_t i = 0; i < 12000; ++i) sums[i / 4000] += y.data<float>()[i];
  EXPECT_EQ(sums[0], 0);
  EXPECT_NEAR(sums[1], 1000, 120);
  EXPECT_EQ(sums[2], 4000);
  OperatorCase("torch.bernoulli")
      .Input(Tensor::From<float>({1.5f}, {1}))
      .ExpectError(ErrorCode::kInvalidArgument, "probability");
}

TEST(Random, RandpermHasEveryNumberOnce) {
  const Tensor y = OperatorCase("torch.randperm").Param("n", "50").Run()[0];
  std::vector<int64_t> sorted(y.data<int64_t>(), y.data<int64_t>() + 50);
  EXPECT_FALSE(std::is_sorted(sorted.begin(), sorted.end()));
  std::sort(sorted.begin(), sorted.end());
  for (int64_t i = 0; i < 50; ++i) EXPECT_EQ(sorted[static_cast<size_t>(i)], i);
}

TEST(Random, EveryRunDiffersAndASeedBringsThemBack) {
  const auto draw = [] {
    const Tensor y = Sized("torch.rand").Run()[0];
    return std::vector<float>(y.data<float>(), y.data<float>() + y.elements());
  };
  SetRandomSeed(7);
  const std::vector<float> first = draw(), second = draw();
  EXPECT_NE(first, second);
  SetRandomSeed(7);
  EXPECT_EQ(draw(), first);
  EXPECT_EQ(draw(), second);
  SetRandomSeed(8);
  EXPECT_NE(draw(), first);
}

}  // namespace
}  // namespace oort::testing
