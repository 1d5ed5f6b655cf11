// SPDX-License-Identifier: MIT
// Activations on every instruction set and floating dtype, against plain formulas in f64.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>

#include "layers/elementwise/elementwise_reference.h"

namespace oort::testing {
namespace {

TEST(Glu, GatesAlongEveryAxis) {
  const Shape shapes[] = {{4, 6, 10}, {2, 2, 2}, {2, 0, 4}, {2, 4, 1500}};
  for (const Shape& shape : shapes) {
    for (int dim = -1; dim < 3; ++dim) {
      const int axis = NormalizeAxis(dim, 3);
      SCOPED_TRACE(shape.ToString() + " along " + std::to_string(dim));
      OperatorCase("F.glu")
          .Param("dim", std::to_string(dim))
          .Input(RandomTensor(DType::kF32, shape, 9, -4, 4))
          .ExpectLike([axis](const std::vector<Tensor>& inputs) {
            Shape half = inputs[0].shape();
            half[axis] /= 2;
            Tensor y(DType::kF64, half);
            const int64_t run = half.Product(axis, 3);
            const double* x = inputs[0].data<double>();
            for (int64_t i = 0; i < y.elements(); ++i) {
              const int64_t first = i / run * 2 * run + i % run;
              y.data<double>()[i] = x[first] / (1 + std::exp(-x[first + run]));
            }
            return std::vector<Tensor>{y};
          });
    }
  }
  OperatorCase("nn.GLU")
      .Input(RangeTensor(DType::kF32, {2, 3}))
      .ExpectError(ErrorCode::kInvalidArgument, "axis 1 of (2,3)f32 has no halves");
  OperatorCase("F.glu")
      .Param("dim", "5")
      .Input(RangeTensor(DType::kF32, {2}))
      .ExpectError(ErrorCode::kInvalidArgument, "axis 5");
}

}  // namespace
}  // namespace oort::testing
