// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "pooling_reference.h"

namespace oort::testing {
namespace {

double SumOf(const PoolWindow& window) {
  return std::accumulate(window.values.begin(), window.values.end(), 0.0);
}

void ExpectAverage(const Tensor& x, const PoolSpec& spec) {
  SCOPED_TRACE("input " + x.ToString() + ", kernel " + PoolSpec::Text(spec.kernel) + ", stride " +
               PoolSpec::Text(spec.stride) + ", pad " + PoolSpec::Text(spec.pad));
  const auto expect = [&](OperatorCase test,
                          const std::function<double(const PoolWindow&)>& divisor) {
    test.Input(x).ExpectLike([&](const std::vector<Tensor>& in) {
      return std::vector<Tensor>{Pooled<double>(
          in[0], spec, [&](const PoolWindow& window) { return SumOf(window) / divisor(window); })};
    });
  };
  const auto padded = [](const PoolWindow& window) { return static_cast<double>(window.padded); };
  expect(spec.Case("nn.AvgPool"), padded);
  expect(spec.Case("F.avg_pool").Param("count_include_pad", "True"), padded);
  expect(spec.Case("F.avg_pool").Param("count_include_pad", "False"),
         [](const PoolWindow& window) { return static_cast<double>(window.values.size()); });
  if (spec.rank() > 1) {
    expect(spec.Case("F.avg_pool").Param("divisor_override", "18"),
           [](const PoolWindow&) { return 18.0; });
    expect(spec.Case("nn.AvgPool").Param("divisor_override", "-3"),
           [](const PoolWindow&) { return -3.0; });
  }
}

TEST(AvgPool, TakesAnyWindow) {
  const Shape shapes[] = {{3, 31}, {3, 12, 19}, {2, 7, 9, 11}};
  for (int rank = 1; rank <= 3; ++rank) {
    const Tensor x = RandomTensor(DType::kF32, shapes[rank - 1], 7);
    for (const PoolSpec& spec :
         {Uniform(rank, 1, 1, 0), Uniform(rank, 2, 2, 0), Uniform(rank, 3, 1, 1),
          Uniform(rank, 3, 2, 1, 1, true), Uniform(rank, 4, 3, 2, 1, true)}) {
      ExpectAverage(x, spec);
    }
  }
}

TEST(AvgPool, TakesAxesThatDiffer) {
  ExpectAverage(RandomTensor(DType::kF32, {2, 3, 13, 17}), {{4, 5}, {1, 2}, {1, 2}, {1, 1}, true});
  ExpectAverage(RandomTensor(DType::kF32, {1, 2, 6, 9, 14}),
                {{1, 2, 3}, {2, 1, 2}, {0, 1, 1}, {1, 1, 1}, false});
}

TEST(AvgPool, WorksOnEdgeWidths) {
  for (int64_t width : EdgeLengths()) {
    if (width == 0) continue;
    const Tensor x = RandomTensor(DType::kF32, {2, 3, width}, 3);
    ExpectAverage(x, Uniform(2, 2, 2, 1, 1, true));
    ExpectAverage(x, Uniform(2, 3, 1, 1));
  }
}

TEST(AvgPool, MatchesTorchAtTheEdgeOfCeilMode) {
  // F.avg_pool1d(torch.arange(1., 6)[None], 2, 2, 1, True, True)
  OperatorCase("F.avg_pool1d")
      .Param("kernel_size", "(2)")
      .Param("stride", "(2)")
      .Param("padding", "(1)")
      .Param("ceil_mode", "True")
      .Input(RangeTensor(DType::kF32, {1, 5}, 1))
      .ExpectOutputs({Tensor::From<float>({0.5, 2.5, 4.5}, {1, 3})});
}

TEST(AvgPool, PassesNanAndInfinityOn) {
  Tensor x = RandomTensor(DType::kF32, {1, 9, 40});
  x.data<float>()[3 * 40 + 5] = NAN;
  x.data<float>()[8 * 40 + 39] = INFINITY;
  ExpectAverage(x, Uniform(2, 3, 2, 1));
}

TEST(AvgPool, WorksOnAnEmptyBatch) {
  OperatorCase("nn.AvgPool2d")
      .Param("kernel_size", "(2,2)")
      .Input(Tensor(DType::kF32, {0, 3, 4, 6}))
      .ExpectOutputs({Tensor(DType::kF32, {0, 3, 2, 3})});
}

TEST(AvgPool, RefusesWrongParameters) {
  const Tensor x = RandomTensor(DType::kF32, {1, 8, 8});
  const auto expect = [&](const std::string& key, const std::string& value,
                          std::string_view message) {
    OperatorCase("F.avg_pool2d")
        .Param("kernel_size", "(3,3)")
        .Param(key, value)
        .Input(x)
        .ExpectError(ErrorCode::kInvalidArgument, message);
  };
  expect("stride", "0", "stride 0 is not in [1, ");
  expect("padding", "2", "padding 2 is over half the kernel size 3");
  expect("kernel_size", "9", "no window fits");
  expect("divisor_override", "0", "divisor_override must not be zero");
  OperatorCase("F.avg_pool3d")
      .Param("kernel_size", "2147483647")
      .Input(Tensor(DType::kF32, {1, 2, 2, 2}))
      .ExpectError(ErrorCode::kInvalidArgument, "a size overflows");
  OperatorCase("F.avg_pool1d")
      .Param("kernel_size", "2")
      .Param("divisor_override", "2")
      .Input(RandomTensor(DType::kF32, {1, 8}))
      .ExpectError(ErrorCode::kUnsupported, "divisor_override");
}

TEST(AvgPool, RefusesWrongInputs) {
  const auto expect = [](const Tensor& x, std::string_view message) {
    OperatorCase("nn.AvgPool2d")
        .Param("kernel_size", "2")
        .Input(x)
        .ExpectError(ErrorCode::kInvalidArgument, message);
  };
  expect(Tensor(DType::kF32, {4, 4}), "expected an input of rank 3 or 4, got (4,4)");
  expect(Tensor(DType::kI32, {1, 4, 4}), "has dtype i32");
}

}  // namespace
}  // namespace oort::testing
