// SPDX-License-Identifier: MIT
// Corrections of biases beside the difference of two layers that really ran.
#include "quantize/correct.h"

#include <gtest/gtest.h>

#include "quantize/networks.h"

namespace oort::quantize {
namespace {

struct ConvCase {
  int64_t in, out, groups;
  std::string kernel, stride, padding, dilation;
};

Operator LayerOf(const ConvCase& c) {
  Operator op;
  op.type = "nn.Conv2d";
  op.name = "conv";
  const auto kernel = Parameter(c.kernel).value().AsInts();
  op.params["groups"] = Parameter(std::to_string(c.groups));
  op.params["stride"] = Parameter(c.stride);
  op.params["padding"] = Parameter(c.padding);
  op.params["dilation"] = Parameter(c.dilation);
  op.attributes["weight"] = testing::RandomTensor(
      DType::kF32, Shape{c.out, c.in / c.groups, kernel[0], kernel[1]}, 3, -1, 1);
  return op;
}

Tensor Run(const Operator& op, const Tensor& weight, const Tensor& input) {
  testing::OperatorCase one(op.type);
  for (const auto& [key, value] : op.params) one.Param(key, value.text());
  return one.Attribute("weight", weight).Input(input).Run().at(0);
}

/// The mean over everything but the channels of float less rounded.
std::vector<double> MeanDifference(const Operator& op, const QuantizedWeights& rounded,
                                   const Grid& grid, const std::vector<Tensor>& inputs,
                                   int64_t channel_axis) {
  const Tensor& weight = op.attributes.at("weight");
  Tensor rough = weight.Clone();
  const auto rows = static_cast<int64_t>(rounded.scales.size());
  for (int64_t i = 0; i < rough.elements(); ++i) {
    rough.data<float>()[i] = static_cast<float>(rounded.values[size_t(i)]) *
                             rounded.scales[size_t(i / (rough.elements() / rows))];
  }
  std::vector<double> sums(size_t(rows), 0);
  double count = 0;
  for (const Tensor& input : inputs) {
    Tensor bytes = input.Clone();
    for (int64_t i = 0; i < bytes.elements(); ++i) {
      bytes.data<float>()[i] = grid.Round(bytes.data<float>()[i]);
    }
    const Tensor exact = Run(op, weight, input), got = Run(op, rough, bytes);
    const int64_t inner = channel_axis == 1 ? exact.dim(2) * exact.dim(3) : 1;
    for (int64_t i = 0; i < exact.elements(); ++i) {
      sums[size_t(i / inner % rows)] +=
          double(exact.data<float>()[i]) - double(got.data<float>()[i]);
    }
    count += double(exact.elements()) / double(rows);
  }
  for (double& sum : sums) sum /= count;
  return sums;
}

TEST(CorrectTest, IsTheMeanErrorOfAConvolution) {
  const ConvCase cases[] = {{3, 4, 1, "(3,3)", "(1,1)", "(1,1)", "(1,1)"},
                            {4, 6, 2, "(3,2)", "(2,1)", "(0,1)", "(1,2)"},
                            {6, 6, 6, "(3,3)", "(2,2)", "(1,1)", "(1,1)"},
                            {5, 2, 1, "(1,1)", "(1,1)", "(0,0)", "(1,1)"},
                            {2, 3, 1, "(4,3)", "(1,1)", "same", "(1,1)"}};
  for (const ConvCase& c : cases) {
    const Operator op = LayerOf(c);
    const Grid grid{0.02f, 30};  // clips at both ends
    QuantizedWeights rounded =
        QuantizeRows(op.attributes.at("weight").span<float>(), c.out, WeightMethod::kMinMax);
    for (float& scale : rounded.scales) scale *= 1.05f;  // a mean error that can be seen
    const std::vector<Tensor> inputs = {
        testing::RandomTensor(DType::kF32, Shape{1, c.in, 9, 8}, 5, -1, 6),
        testing::RandomTensor(DType::kF32, Shape{2, c.in, 7, 11}, 6, -1, 6)};
    InputSums sums(op);
    for (const Tensor& input : inputs) sums.Add(input, std::span(&grid, 1));
    const std::vector<float> got = sums.Correction(op.attributes.at("weight"), rounded);
    const std::vector<double> want = MeanDifference(op, rounded, grid, inputs, 1);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(double(got[i]), want[i], 1e-5) << c.kernel;
  }
}

TEST(CorrectTest, WaysAndThreadsHaveTheirOwnSums) {
  const Operator op = LayerOf({64, 64, 64, "(3,3)", "(2,1)", "(1,1)", "(1,1)"});
  const Tensor& weight = op.attributes.at("weight");
  const QuantizedWeights rounded = QuantizeRows(weight.span<float>(), 64, WeightMethod::kMinMax);
  const std::vector<Grid> grids = {{0.02f, 30}, {0.05f, 0}};
  InputSums both(op, 2);
  std::vector<InputSums> alone(2, InputSums(op));
  for (const uint64_t seed : {5, 6}) {
    const Tensor input = testing::RandomTensor(DType::kF32, Shape{2, 64, 31, 40}, seed, -1, 6);
    both.Add(input, grids, 3);
    for (size_t way = 0; way < 2; ++way) alone[way].Add(input, std::span(grids).subspan(way, 1));
  }
  for (size_t way = 0; way < 2; ++way) {
    EXPECT_EQ(both.Correction(weight, rounded, way), alone[way].Correction(weight, rounded));
  }
  EXPECT_NE(both.Correction(weight, rounded, 0), both.Correction(weight, rounded, 1));
}

TEST(CorrectTest, IsTheMeanErrorOfALinearLayer) {
  Operator op;
  op.type = "nn.Linear";
  op.attributes["weight"] = testing::RandomTensor(DType::kF32, Shape{4, 6}, 3, -1, 1);
  const Grid grid{0.01f, 100};
  QuantizedWeights rounded =
      QuantizeRows(op.attributes.at("weight").span<float>(), 4, WeightMethod::kMse);
  rounded.scales[1] *= 1.1f;
  const std::vector<Tensor> inputs = {testing::RandomTensor(DType::kF32, Shape{3, 5, 6}, 5, -2, 2)};
  InputSums sums(op);
  sums.Add(inputs[0], std::span(&grid, 1));
  const std::vector<float> got = sums.Correction(op.attributes.at("weight"), rounded);
  const std::vector<double> want = MeanDifference(op, rounded, grid, inputs, 2);
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(double(got[i]), want[i], 1e-5);
}

}  // namespace
}  // namespace oort::quantize
