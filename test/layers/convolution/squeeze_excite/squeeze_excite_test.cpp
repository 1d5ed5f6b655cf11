// SPDX-License-Identifier: MIT
// Squeeze-and-excite against its formula; test/cuda has larger images.
#include <gtest/gtest.h>

#include <cmath>

#include "oort/testing.h"

namespace oort::testing {
namespace {

struct ExciteCase {
  Tensor x = RandomTensor(DType::kF32, {2, 3, 5, 7}, 1);
  Tensor squeeze = RandomTensor(DType::kF32, {3, 7}, 2);
  Tensor squeeze_bias = RandomTensor(DType::kF32, {3}, 3);
  Tensor excite = RandomTensor(DType::kF32, {7, 3}, 4);
  Tensor excite_bias = RandomTensor(DType::kF32, {7}, 5);

  OperatorCase Operator() const {
    return OperatorCase("nhwc.SqueezeExcite")
        .Attribute("squeeze_weight", squeeze)
        .Attribute("squeeze_bias", squeeze_bias)
        .Attribute("excite_weight", excite)
        .Attribute("excite_bias", excite_bias)
        .Input(x);
  }

  /// relu between the products, sigmoid behind them.
  Tensor Expected() const {
    Tensor y(DType::kF32, x.shape());
    for (int64_t image = 0; image < 2; ++image) {
      const float* in = x.data<float>() + image * 15 * 7;
      double squeezed[3];
      for (int64_t h = 0; h < 3; ++h) {
        squeezed[h] = squeeze_bias.data<float>()[h];
        for (int64_t i = 0; i < 15 * 7; ++i) {
          squeezed[h] += double{in[i]} * squeeze.data<float>()[h * 7 + i % 7] / 15;
        }
        squeezed[h] = std::fmax(squeezed[h], 0);
      }
      for (int64_t i = 0; i < 15 * 7; ++i) {
        double sum = excite_bias.data<float>()[i % 7];
        for (int64_t h = 0; h < 3; ++h) sum += squeezed[h] * excite.data<float>()[i % 7 * 3 + h];
        y.data<float>()[image * 15 * 7 + i] = static_cast<float>(in[i] / (1 + std::exp(-sum)));
      }
    }
    return y;
  }
};

TEST(SqueezeExcite, IsItsFormula) {
  const ExciteCase tested;
  tested.Operator()
      .Param("squeeze_activation", "relu")
      .Param("excite_activation", "sigmoid")
      .AlsoOnGpu()
      .ExpectOutputs({tested.Expected()}, {1e-5, 1e-5});
}

TEST(SqueezeExcite, RefusesWhatDoesNotFit) {
  ExciteCase other = {};
  other.x = Tensor(DType::kF32, {1, 2, 2, 6});
  other.Operator().ExpectError(ErrorCode::kInvalidArgument, "expected an image (…, H, W, 7)");
  ExciteCase weights = {};
  weights.excite = Tensor(DType::kF32, {7, 4});
  weights.Operator().ExpectError(ErrorCode::kInvalidModel, "(hidden, channels)");
  ExciteCase bias = {};
  bias.excite_bias = Tensor(DType::kF32, {3});
  bias.Operator().ExpectError(ErrorCode::kInvalidModel, "a bias of 7 elements");
  ExciteCase()
      .Operator()
      .Param("excite_activation", "mish")
      .ExpectError(ErrorCode::kInvalidModel, "excite_activation");
}

}  // namespace
}  // namespace oort::testing
