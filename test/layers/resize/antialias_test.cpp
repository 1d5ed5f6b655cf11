// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>

#include "oort/testing.h"

namespace oort::testing {
namespace {

/// Weights of all inputs of an axis in one output.
std::vector<double> FilterWeights(const std::string& mode, int64_t in, int64_t out, double factor,
                                  bool align, int64_t i) {
  const double to = static_cast<double>(out), from = static_cast<double>(in);
  double step = align ? (out > 1 ? (from - 1) / (to - 1) : 0) : factor > 0 ? 1 / factor : from / to;
  if (in == out) step = 1;
  const double wide = std::max(step, 1.0), center = step * (static_cast<double>(i) + 0.5);
  const double support = wide * (mode == "bicubic" ? 2 : 1);
  std::vector<double> weights(static_cast<size_t>(in), 0);
  double total = 0;
  for (int64_t j = 0; j < in; ++j) {
    // The filter ends at whole elements.
    if (j < static_cast<int64_t>(std::max(center - support + 0.5, 0.0)) ||
        j >= static_cast<int64_t>(center + support + 0.5)) {
      continue;
    }
    const double d = std::abs(static_cast<double>(j) + 0.5 - center) / wide, a = -0.5;
    const double cubic = d < 1   ? (a + 2) * d * d * d - (a + 3) * d * d + 1
                         : d < 2 ? a * d * d * d - 5 * a * d * d + 8 * a * d - 4 * a
                                 : 0;
    total += weights[static_cast<size_t>(j)] = mode == "bicubic" ? cubic : std::max(0.0, 1 - d);
  }
  for (double& weight : weights) weight /= total;
  return weights;
}

Tensor Filtered(const Tensor& x, const std::string& mode, std::array<int64_t, 2> size,
                std::array<double, 2> factors, bool align) {
  const Shape& s = x.shape();
  Tensor y(DType::kF64, {s[0], s[1], size[0], size[1]});
  for (int64_t i = 0; i < y.elements(); ++i) {
    const auto rows = FilterWeights(mode, s[2], size[0], factors[0], align, i / size[1] % size[0]);
    const auto columns = FilterWeights(mode, s[3], size[1], factors[1], align, i % size[1]);
    const double* plane = x.data<double>() + i / (size[0] * size[1]) * s[2] * s[3];
    double sum = 0;
    for (int64_t j = 0; j < s[2] * s[3]; ++j) {
      sum +=
          rows[static_cast<size_t>(j / s[3])] * columns[static_cast<size_t>(j % s[3])] * plane[j];
    }
    y.data<double>()[i] = sum;
  }
  return y;
}

TEST(Antialias, FiltersWhatShrinks) {
  const Tensor x = RandomTensor(DType::kF32, {2, 3, 11, 14});
  const std::vector<std::array<int64_t, 2>> sizes = {{5, 6},   {2, 3},  {1, 9},  {17, 4},
                                                     {22, 28}, {11, 5}, {8, 14}, {11, 14}};
  for (const std::string mode : {"bilinear", "bicubic"}) {
    for (bool align : {false, true}) {
      for (const std::array<int64_t, 2>& size : sizes) {
        SCOPED_TRACE(mode + " to " + Shape(size).ToString());
        const auto reference = [&](const std::vector<Tensor>& in) {
          return std::vector<Tensor>{Filtered(in[0], mode, size, {0, 0}, align)};
        };
        OperatorCase("F.interpolate")
            .Param("mode", mode)
            .Param("size", Shape(size).ToString())
            .Param("antialias", "True")
            .Param("align_corners", align ? "True" : "False")
            .Input(x)
            .ExpectLike(reference);
        OperatorCase("aten::_upsample_" + mode + "2d_aa")
            .Input(x)
            .Input(Value(Value::List{Value(size[0]), Value(size[1])}))
            .Input(Value(align))
            .Input(Value())
            .Input(Value())
            .ExpectLike(reference);
      }
    }
  }
}

TEST(Antialias, FollowsFactors) {
  const Tensor x = RandomTensor(DType::kF32, {1, 2, 12, 10});
  const std::array<double, 2> factors{0.45, 1.7};
  for (const std::string mode : {"bilinear", "bicubic"}) {
    const auto reference = [&](const std::vector<Tensor>& in) {
      return std::vector<Tensor>{Filtered(in[0], mode, {5, 17}, factors, false)};
    };
    const Value list(Value::List{Value(factors[0]), Value(factors[1])});
    OperatorCase("aten::_upsample_" + mode + "2d_aa")
        .Input(x)
        .Input(Value())
        .Input(Value(false))
        .Input(list)
        .ExpectLike(reference);
    OperatorCase("aten::_upsample_" + mode + "2d_aa")
        .Input(x)
        .Input(Value(Value::List{Value(5), Value(17)}))
        .Input(Value(false))
        .Input(Value(factors[0]))
        .Input(Value(factors[1]))
        .ExpectLike(reference);
    OperatorCase("F.interpolate")
        .Param("mode", mode)
        .Param("scale_factor", "(0.45,1.7)")
        .Param("antialias", "True")
        .Input(x)
        .ExpectLike(reference);
  }
}

/// From torch: F.interpolate(torch.arange(7.)[None, None, None], antialias=True, …).
TEST(Antialias, AnswersAsTorch) {
  const auto expect = [](const std::string& mode, const std::string& key, const std::string& value,
                         const std::string& align, std::initializer_list<float> values) {
    OperatorCase("F.interpolate")
        .Param("mode", mode)
        .Param(key, value)
        .Param("antialias", "True")
        .Param("align_corners", align)
        .Input(RangeTensor(DType::kF32, {1, 1, 1, 7}))
        .ExpectOutputs({Tensor::From<float>(values, {1, 1, 1, 3})});
  };
  expect("bilinear", "size", "(1,3)", "False", {0.857142806f, 3.00000024f, 5.14285707f});
  expect("bilinear", "size", "(1,3)", "True", {1.25f, 4, 5.66666698f});
  expect("bilinear", "scale_factor", "(1.0,0.45)", "None", {0.818181813f, 2.7977531f, 4.95348883f});
  expect("bicubic", "size", "(1,3)", "False", {0.717742085f, 3, 5.28225803f});
  expect("bicubic", "size", "(1,3)", "True", {1.06666636f, 4.09411812f, 6.03703737f});
  expect("bicubic", "scale_factor", "(1.0,0.45)", "None", {0.664249599f, 2.80147934f, 5.10847139f});
}

TEST(Antialias, SurvivesFactorsThatDoNotFit) {
  const Tensor x = RandomTensor(DType::kF32, {1, 1, 5, 6});
  for (double factor : {1e-300, 1e-30, 1e-3, 1e3, 1e14}) {
    const std::vector<Tensor> got = OperatorCase("aten::_upsample_bicubic2d_aa")
                                        .Input(x)
                                        .Input(Value(Value::List{Value(4), Value(3)}))
                                        .Input(Value(false))
                                        .Input(Value(factor))
                                        .Input(Value(factor))
                                        .Run();
    EXPECT_EQ(got[0].shape(), (Shape{1, 1, 4, 3}));
  }
}

TEST(Antialias, RefusesWhatIsWrong) {
  const auto expect = [](const std::string& mode, const Tensor& x, ErrorCode code,
                         std::string_view message) {
    OperatorCase("F.interpolate")
        .Param("mode", mode)
        .Param("size", "3")
        .Param("antialias", "True")
        .Input(x)
        .ExpectError(code, message);
  };
  const ErrorCode argument = ErrorCode::kInvalidArgument;
  expect("area", Tensor(DType::kF32, {1, 1, 4, 4}), argument, "takes mode bilinear or bicubic");
  expect("linear", Tensor(DType::kF32, {1, 1, 4}), argument, "takes mode bilinear or bicubic");
  expect("bilinear", Tensor(DType::kF32, {1, 1, 4}), argument, "takes an input of rank 4");
  OperatorCase("aten::_upsample_bilinear2d_aa")
      .Input(Tensor::Zeros(DType::kF32, {1, 1, 4, 4}))
      .Input(Value())
      .Input(Value(false))
      .ExpectError(argument, "expected size or scale_factor");
}

}  // namespace
}  // namespace oort::testing
