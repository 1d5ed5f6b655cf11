// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>

#include "pooling_adaptive_reference.h"

namespace oort::testing {
namespace {

double MeanOf(const PoolWindow& window) {
  double sum = 0;
  for (double value : window.values) sum += value;
  return sum / static_cast<double>(window.values.size());
}

void ExpectMeans(const Tensor& x, int rank, const std::vector<int64_t>& sizes) {
  SCOPED_TRACE("input " + x.ToString() + " to " + PoolSpec::Text(sizes));
  for (const char* prefix : {"F.adaptive_avg_pool", "nn.AdaptiveAvgPool"}) {
    OperatorCase(prefix + std::to_string(rank) + "d")
        .Param("output_size", PoolSpec::Text(sizes))
        .Input(x)
        .ExpectLike([&](const std::vector<Tensor>& in) {
          return std::vector<Tensor>{AdaptivePooled<double>(in[0], sizes, MeanOf)};
        });
  }
}

TEST(AdaptiveAvgPool, DividesTheInputEvenly) {
  const Tensor x1 = RandomTensor(DType::kF32, {2, 3, 31}),
               x2 = RandomTensor(DType::kF32, {3, 12, 19});
  const Tensor x3 = RandomTensor(DType::kF32, {2, 2, 7, 9, 11});
  for (int64_t size : {1, 2, 7, 30, 31, 40}) ExpectMeans(x1, 1, {size});
  for (const std::vector<int64_t>& sizes :
       std::vector<std::vector<int64_t>>{{1, 1}, {7, 6}, {0, 3}, {5, 0}, {0, 0}, {13, 40}}) {
    ExpectMeans(x2, 2, sizes);
  }
  for (const std::vector<int64_t>& sizes :
       std::vector<std::vector<int64_t>>{{1, 1, 1}, {7, 6, 5}, {0, 4, 3}, {5, 0, 0}, {8, 1, 2}}) {
    ExpectMeans(x3, 3, sizes);
  }
}

TEST(AdaptiveAvgPool, WorksOnEdgeSizes) {
  for (int64_t width : EdgeLengths()) {
    if (width == 0) continue;
    ExpectMeans(RandomTensor(DType::kF32, {2, 3, width}), 2, {1, 1});
    ExpectMeans(RandomTensor(DType::kF32, {2, 3, width}), 2, {2, 3});
  }
  ExpectMeans(RandomTensor(DType::kF32, {600, 7, 7}), 2, {1, 1});
}

TEST(AdaptiveAvgPool, IsAccurateOverManyElements) {
  // The mean of a large plane with a large offset: naive f32 sums are off by far more.
  const Tensor x = RandomTensor(DType::kF32, {2, 300, 400}, 5, 1000, 1001);
  OperatorCase("F.adaptive_avg_pool2d")
      .Param("output_size", "(1,1)")
      .Input(x)
      .ExpectLike(
          [&](const std::vector<Tensor>& in) {
            return std::vector<Tensor>{AdaptivePooled<double>(in[0], {1, 1}, MeanOf)};
          },
          {0, 2e-2});
  const Tensor got =
      OperatorCase("F.adaptive_avg_pool2d").Param("output_size", "(1,1)").Input(x).Run()[0];
  const Tensor want = AdaptivePooled<double>(x.To(DType::kF64), {1, 1}, MeanOf);
  ExpectNear(got, want.To(DType::kF32), {0, 1e-6});
}

TEST(AdaptiveAvgPool, TakesNoneAndSizesFromTheGraph) {
  const Tensor x = RandomTensor(DType::kF64, {1, 6, 8});
  const Tensor expected = AdaptivePooled<double>(x, {0, 4}, MeanOf);
  OperatorCase("F.adaptive_avg_pool2d")
      .Param("output_size", "(None,4)")
      .Input(x)
      .ExpectOutputs({expected});
  OperatorCase("F.adaptive_avg_pool2d")
      .Input(x, "input")
      .Input(Value(Value::List{Value(6), Value(4)}), "output_size")
      .ExpectOutputs({expected});
  OperatorCase("F.adaptive_avg_pool2d")
      .Param("output_size", "4")
      .Input(x)
      .ExpectOutputs({AdaptivePooled<double>(x, {4, 4}, MeanOf)});
}

TEST(AdaptiveAvgPool, PassesNanOnAndTakesNoPlanes) {
  Tensor x = RandomTensor(DType::kF32, {3, 5, 9});
  x.data<float>()[7] = NAN;
  ExpectMeans(x, 2, {1, 1});
  ExpectMeans(x, 2, {3, 4});
  OperatorCase("nn.AdaptiveAvgPool2d")
      .Param("output_size", "(2,2)")
      .Input(Tensor(DType::kF32, {0, 3, 4, 6}))
      .ExpectOutputs({Tensor(DType::kF32, {0, 3, 2, 2})});
}

TEST(AdaptiveAvgPool, RefusesWhatIsWrong) {
  const auto expect = [](const Tensor& x, const std::string& size, std::string_view message) {
    OperatorCase("F.adaptive_avg_pool2d")
        .Param("output_size", size)
        .Input(x)
        .ExpectError(ErrorCode::kInvalidArgument, message);
  };
  const Tensor x = RandomTensor(DType::kF32, {1, 4, 4});
  expect(x, "(-1,2)", "negative extent");
  expect(x, "(1,2,3)", "expected 2 values in output_size");
  expect(x, "(9223372036854775807,1)", "a size overflows");
  expect(x, "(1000000000000,1000000000000)", "too many elements");
  expect(RandomTensor(DType::kF32, {4, 4}), "(1,1)", "expected an input of rank 3 or 4");
  expect(Tensor(DType::kF32, {1, 0, 4}), "(1,1)", "expected spatial extents above zero");
  expect(Tensor(DType::kI64, {1, 4, 4}), "(1,1)", "has dtype i64");
}

}  // namespace
}  // namespace oort::testing
