// SPDX-License-Identifier: MIT
// Activations on every instruction set and floating dtype, against plain formulas in f64.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>

#include "layers/elementwise/elementwise_reference.h"

namespace oort::testing {
namespace {

/// prelu, with the weight of the channel that an element of axis 1 belongs to.
std::vector<Tensor> PreluReference(const std::vector<Tensor>& inputs, const Tensor& slopes) {
  const Tensor& x = inputs[0];
  const Tensor weight = slopes.To(DType::kF64);
  Tensor y(DType::kF64, x.shape());
  const int64_t inner = x.rank() > 1 ? x.shape().Product(2, x.rank()) : 1;
  for (int64_t i = 0; i < x.elements(); ++i) {
    const int64_t channel = weight.elements() == 1 ? 0 : i / inner % weight.elements();
    const double v = x.data<double>()[i];
    y.data<double>()[i] = v > 0 ? v : v * weight.data<double>()[channel];
  }
  return {y};
}

TEST(Prelu, WeightsRunAlongAxisOne) {
  const Tensor one = Tensor::From<float>({0.25f}, {1});
  const Tensor three = Tensor::From<float>({0.5f, -1, 2}, {3});
  const std::pair<Shape, Tensor> cases[] = {{{2, 3}, three},
                                            {{2, 3, 5}, three},
                                            {{2, 3, 40, 41}, three},
                                            {{2, 3, 2, 2, 2}, three},
                                            {{0, 3, 4}, three},
                                            {{2, 3, 5, 7}, one},
                                            {{6}, one},
                                            {{}, one}};
  for (const auto& [shape, weight] : cases) {
    SCOPED_TRACE(shape.ToString());
    const Tensor slopes = weight;
    const Tensor x = RandomTensor(DType::kF32, shape, 8);
    OperatorCase("nn.PReLU")
        .Param("num_parameters", std::to_string(slopes.elements()))
        .Attribute("weight", slopes)
        .Input(x)
        .ExpectLike(
            [&](const std::vector<Tensor>& inputs) { return PreluReference(inputs, slopes); });
    OperatorCase("F.prelu")
        .Input(x, "input")
        .Input(slopes, "weight")
        .ExpectLike(
            [&](const std::vector<Tensor>& inputs) { return PreluReference(inputs, slopes); });
  }
}

TEST(Prelu, RefusesWrongWeights) {
  OperatorCase("F.prelu")
      .Input(RangeTensor(DType::kF32, {2, 4}), "input")
      .Input(RangeTensor(DType::kF32, {3}), "weight")
      .ExpectError(ErrorCode::kInvalidArgument, "each of 4 channels, got shape (3)");
}

}  // namespace
}  // namespace oort::testing
