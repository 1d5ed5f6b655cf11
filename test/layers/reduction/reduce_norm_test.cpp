// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>
#include <complex>

#include "layers/aten/aten_form.h"
#include "reduction_reference.h"

namespace oort::testing {
namespace {

double NormOf(const Elements& all, double p) {
  double sum = 0, max = 0, min = INFINITY, count = 0;
  for (double value : all.values) {
    const double size = std::abs(value);
    sum += std::pow(size, p);
    max = std::max(max, size);
    min = std::min(min, size);
    count += size != 0 ? 1 : 0;
  }
  if (std::isinf(p)) return p > 0 ? max : min;
  return p == 0 ? count : std::pow(sum, 1 / p);
}

void ExpectNorm(const std::string& text, double p) {
  for (const ReduceCase& c : ReduceCases()) {
    SCOPED_TRACE(c.shape.ToString() + " over " + c.dim() + ", p " + text);
    OperatorCase("torch.norm")
        .Param("p", text)
        .Param("dim", c.dim())
        .Param("keepdim", "True")
        .Input(RandomTensor(DType::kF32, c.shape, 5))
        .ExpectLike([&](const std::vector<Tensor>& in) {
          return std::vector<Tensor>{Reduced<double>(
              in[0], c.axes, true, [&](const Elements& all) { return NormOf(all, p); })};
        });
  }
}

TEST(Norm, TakesAnyPower) {
  ExpectNorm("2", 2);
  ExpectNorm("1", 1);
  ExpectNorm("3.0", 3);
  ExpectNorm("0", 0);
  ExpectNorm("fro", 2);
  ExpectNorm("inf", INFINITY);
  ExpectNorm("-inf", -INFINITY);
}

TEST(Norm, OfNothingIsZeroUnlessItIsAnExtreme) {
  const Tensor none(DType::kF32, {0, 2});
  OperatorCase("torch.norm")
      .Param("dim", "(0)")
      .Input(none)
      .ExpectOutputs({Tensor::From<float>({0, 0}, {2})});
  OperatorCase("torch.norm")
      .Param("p", "inf")
      .Param("dim", "(0)")
      .Input(none)
      .ExpectError(ErrorCode::kInvalidArgument, "none: input (0,2)");
}

TEST(Norm, NanComesThrough) {
  const Tensor x = Tensor::From<float>({1, NAN, -INFINITY, 2}, {2, 2});
  for (const char* p : {"1", "2", "3", "inf"}) {
    OperatorCase("torch.norm")
        .Param("p", p)
        .Param("dim", "(1)")
        .Input(x)
        .ExpectOutputs({Tensor::From<float>({NAN, INFINITY}, {2})});
  }
}

TEST(Norm, TakesAtensForm) {
  const Tensor x = Tensor::From<float>({3, 4, 6, 8}, {2, 2});
  const auto norm = [&](const std::string& p, const std::string& dim) {
    return RunAten("aten::linalg_norm", {x}, {p, dim, "False", "None"})[0];
  };
  ExpectNear(norm("None", "[1]"), Tensor::From<float>({5, 10}, {2}));
  ExpectNear(norm("1", "[0]"), Tensor::From<float>({9, 12}, {2}));
  ExpectNear(norm("None", "None"), Tensor::Scalar(11.1803399f));
  ExpectNear(norm("2", "[0,1]"), Tensor::Scalar(11.1803399f));
  ExpectNear(norm("1", "None"), Tensor::Scalar(12.0f));
  EXPECT_THROW(norm("3", "[0,1]"), Error);
}

TEST(Norm, RefusesWhatIsWrong) {
  ExpectReductionErrors("torch.norm");
  OperatorCase("torch.norm")
      .Param("p", "nuc")
      .Input(RandomTensor(DType::kF32, {2, 2}))
      .ExpectError(ErrorCode::kUnsupported, "norm p=nuc is not supported");
  OperatorCase("torch.norm")
      .Input(Tensor(DType::kI64, {2}))
      .ExpectError(ErrorCode::kInvalidArgument, "has dtype i64");
}

TEST(Norm, TakesTheMagnitudesOfComplexNumbers) {
  using C64 = std::complex<float>;
  using C128 = std::complex<double>;
  OperatorCase("torch.norm")
      .Param("dim", "1")
      .Input(Tensor::From<C64>({{3, 4}, {0, -12}, {1, 0}, {0, 0}}, {2, 2}))
      .ExpectOutputs({Tensor::From<float>({13, 1}, {2})});
  OperatorCase("torch.norm")
      .Param("p", "1")
      .Input(Tensor::From<C128>({{3, 4}, {0, -12}}, {2}))
      .ExpectOutputs({Tensor::Scalar<double>(17)});
}

}  // namespace
}  // namespace oort::testing
