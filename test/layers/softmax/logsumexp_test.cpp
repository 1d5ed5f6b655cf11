// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>

#include "layers/reduction/reduction_reference.h"

namespace oort::testing {
namespace {

double LogSumExpOf(const Elements& all) {
  double sum = 0;
  for (double value : all.values) sum += std::exp(value);
  return std::log(sum);
}

TEST(LogSumExp, OverAnyAxes) { ExpectReduction("torch.logsumexp", {LogSumExpOf}); }

TEST(LogSumExp, LargeNumbersDoNotOverflow) {
  OperatorCase("torch.logsumexp")
      .Param("dim", "(1)")
      .Input(Tensor::From<float>({1000, 1000, -1000, -1000}, {2, 2}))
      .ExpectOutputs({Tensor::From<float>({1000.6931472f, -999.3068528f}, {2})});
}

TEST(LogSumExp, LongRowsOfAllMagnitudes) {
  for (const int64_t count : {5, 37, 1000, 5000}) {
    SCOPED_TRACE(count);
    Tensor x(DType::kF32, {2, count});
    std::vector<float> expected;
    for (int64_t row = 0; row < 2; ++row) {
      // Down to where exp(x - max) is nothing, and to minus infinity.
      double sum = 0;
      for (int64_t i = 0; i < count; ++i) {
        const double step = static_cast<double>(i * 7 % count) / static_cast<double>(count);
        const auto value = static_cast<float>(i == 3 ? -INFINITY : 300 - 200 * step * (1 + row));
        x.data<float>()[row * count + i] = value;
        sum += std::exp(static_cast<double>(value) - 300);
      }
      expected.push_back(static_cast<float>(300 + std::log(sum)));
    }
    OperatorCase("torch.logsumexp")
        .Param("dim", "(1)")
        .Input(x)
        .ExpectOutputs({Tensor::From<float>({expected[0], expected[1]}, {2})});
  }
}

TEST(LogSumExp, InfinitiesNanAndNothingAreTorchs) {
  const float inf = INFINITY;
  OperatorCase("torch.logsumexp")
      .Param("dim", "(1)")
      .Input(Tensor::From<float>({inf, 1, -inf, -inf, -inf, 1, NAN, inf}, {4, 2}))
      .ExpectOutputs({Tensor::From<float>({inf, -inf, 1, NAN}, {4})});
  OperatorCase("torch.logsumexp")
      .Param("dim", "(0)")
      .Input(Tensor(DType::kF32, {0, 1}))
      .ExpectOutputs({Tensor::From<float>({-inf}, {1})});
}

TEST(LogSumExp, IntegersGiveF32) {
  OperatorCase("torch.logsumexp")
      .Param("dim", "(0)")
      .Input(Tensor::From<int64_t>({0, 0}, {2}))
      .ExpectOutputs({Tensor::Scalar(0.69314718f)});
}

TEST(LogSumExp, RefusesWhatIsWrong) {
  ExpectReductionErrors("torch.logsumexp");
  OperatorCase("torch.logsumexp")
      .Input(Tensor(DType::kC64, {2}))
      .ExpectError(ErrorCode::kInvalidArgument, "has dtype c64");
}

}  // namespace
}  // namespace oort::testing
