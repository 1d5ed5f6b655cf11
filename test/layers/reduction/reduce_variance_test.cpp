// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>

#include "layers/aten/aten_form.h"
#include "reduction_reference.h"

namespace oort::testing {
namespace {

double VarianceOf(const Elements& all, double correction) {
  const double count = static_cast<double>(all.values.size());
  double mean = 0, squares = 0;
  for (double value : all.values) mean += value / count;
  for (double value : all.values) squares += (value - mean) * (value - mean);
  return squares / std::max(0.0, count - correction);
}

TEST(Variance, OverAnyAxes) {
  ExpectReduction("torch.var", {[](const Elements& all) { return VarianceOf(all, 1); }});
  ExpectReduction("torch.std", {[](const Elements& all) { return std::sqrt(VarianceOf(all, 1)); }});
}

TEST(Variance, TakesACorrection) {
  const Tensor x = RandomTensor(DType::kF32, {4, 6, 5});
  const auto expect = [&](const std::string& key, const std::string& value, double correction) {
    for (const char* dim : {"(0)", "(1)", "(2)"}) {
      const std::vector<int> axes = {dim[1] - '0'};
      for (bool root : {false, true}) {
        OperatorCase(root ? "torch.std" : "torch.var")
            .Param("dim", dim)
            .Param(key, value)
            .Input(x)
            .ExpectLike([&](const std::vector<Tensor>& in) {
              return std::vector<Tensor>{
                  Reduced<double>(in[0], axes, false, [&](const Elements& all) {
                    const double variance = VarianceOf(all, correction);
                    return root ? std::sqrt(variance) : variance;
                  })};
            });
      }
    }
  };
  expect("unbiased", "True", 1);
  expect("unbiased", "False", 0);
  expect("unbiased", "2", 2);
  expect("correction", "0", 0);
  expect("correction", "3", 3);
  expect("correction", "None", 1);
}

TEST(Variance, KeepsItsDigitsUnderALargeMean) {
  const Tensor x = RandomTensor(DType::kF32, {3, 3000}, 8, 1000, 1000.03);
  for (int axis : {0, 1}) {
    const Tensor input = axis == 1 ? x : x.Reshaped({3000, 3});
    OperatorCase("torch.var")
        .Param("dim", std::to_string(axis))
        .Input(input)
        .ExpectOutputs({Reduced<double>(input.To(DType::kF64), {axis}, false,
                                        [](const Elements& all) { return VarianceOf(all, 1); })
                            .To(DType::kF32)},
                       {0, 1e-5});
  }
}

TEST(Variance, OfTooFewElementsIsNanOrInfinite) {
  OperatorCase("torch.std")
      .Param("dim", "0")
      .Input(Tensor::From<float>({1, 2}, {1, 2}))
      .ExpectOutputs({Tensor::From<float>({NAN, NAN}, {2})});
  OperatorCase("torch.var")
      .Param("dim", "0")
      .Param("correction", "5")
      .Input(Tensor::From<float>({1, 2}, {2, 1}))
      .ExpectOutputs({Tensor::From<float>({INFINITY}, {1})});
  OperatorCase("torch.var")
      .Param("dim", "0")
      .Param("unbiased", "False")
      .Input(Tensor(DType::kF32, {0, 1}))
      .ExpectOutputs({Tensor::From<float>({NAN}, {1})});
}

TEST(Variance, TakesAtensForm) {
  const Tensor x = Tensor::From<double>({1, 2, 3, 5, 7, 9}, {2, 3});
  ExpectNear(RunAten("aten::var", {x}, {"False"})[0], Tensor::Scalar(47.5 / 6));
  ExpectNear(RunAten("aten::std", {x}, {"True"})[0], Tensor::Scalar(std::sqrt(9.5)));
  const std::vector<Tensor> both = RunAten("aten::var_mean", {x}, {"[1]", "True", "False"}, 2);
  ExpectNear(both[0], Tensor::From<double>({1, 4}, {2}));
  ExpectNear(both[1], Tensor::From<double>({2, 7}, {2}));
  // Around a large mean, which f32 rounds before the differences are taken.
  const Tensor large = RandomTensor(DType::kF32, {5000}, 8, 1000, 1000.03);
  const Tensor mean = RunAten("aten::std_mean", {large}, {"[0]", "2", "True"}, 2)[1];
  double sum = 0;
  for (float value : large.span<float>()) sum += static_cast<double>(value);
  ExpectNear(mean, Tensor::From<float>({static_cast<float>(sum / 5000)}, {1}), {0, 1e-7});
}

TEST(Variance, RefusesWhatIsWrong) {
  ExpectReductionErrors("torch.std");
  ExpectReductionErrors("torch.var");
  OperatorCase("torch.std")
      .Input(Tensor(DType::kI64, {2}))
      .ExpectError(ErrorCode::kInvalidArgument, "has dtype i64");
}

}  // namespace
}  // namespace oort::testing
