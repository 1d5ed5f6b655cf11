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
