// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>

#include "layers/reduction/reduction_reference.h"

namespace oort::testing {
namespace {

double NormOf(const std::vector<double>& values, double p) {
  double sum = 0, max = 0;
  for (double value : values) {
    sum += std::pow(std::abs(value), p);
    max = std::max(max, std::abs(value));
  }
  return std::isinf(p) ? max : std::pow(sum, 1 / p);
}

void ExpectNormalized(const Tensor& x, int dim, double p, double eps) {
  SCOPED_TRACE(x.ToString() + ", dim " + std::to_string(dim) + ", p " + std::to_string(p));
  OperatorCase("F.normalize")
      .Param("dim", std::to_string(dim))
      .Param("p", std::isinf(p) ? "inf" : Value(p).ToString())
      .Param("eps", Value(eps).ToString())
      .Input(x)
      .ExpectLike([&](const std::vector<Tensor>& in) {
        const int axis = NormalizeAxis(dim, in[0].rank());
        const Tensor norms = Reduced<double>(in[0], {axis}, true, [&](const Elements& all) {
          return std::max(NormOf(all.values, p), eps);
        });
        Tensor y(DType::kF64, in[0].shape());
        const int64_t inner = y.shape().Product(axis + 1, y.rank()), extent = y.shape()[axis];
        for (int64_t i = 0; i < y.elements(); ++i) {
          const int64_t at = i / (inner * extent) * inner + i % inner;
          y.data<double>()[i] = in[0].data<double>()[i] / norms.data<double>()[at];
        }
        return std::vector<Tensor>{y};
      });
}

TEST(Normalize, DividesByTheNormAlongAnAxis) {
  const Tensor x = RandomTensor(DType::kF32, {2, 5, 19});
  for (int dim : {0, 1, 2, -1}) {
    for (double p : {2.0, 1.0, 3.0, static_cast<double>(INFINITY)}) {
      ExpectNormalized(x, dim, p, 1e-12);
    }
  }
  for (int64_t length : EdgeLengths()) {
    if (length > 0) ExpectNormalized(RandomTensor(DType::kF32, {3, length}), 1, 2, 1e-12);
  }
}

TEST(Normalize, EpsKeepsZerosAndNanStays) {
  OperatorCase("F.normalize")
      .Input(Tensor::From<float>({0, 0, 3, 4, NAN, 1}, {3, 2}))
      .ExpectOutputs({Tensor::From<float>({0, 0, 0.6f, 0.8f, NAN, NAN}, {3, 2})});
  OperatorCase("F.normalize")
      .Param("eps", "10.0")
      .Input(Tensor::From<float>({3, 4}, {1, 2}))
      .ExpectOutputs({Tensor::From<float>({0.3f, 0.4f}, {1, 2})});
  OperatorCase("F.normalize")
      .Input(Tensor(DType::kF32, {2, 0}))
      .ExpectOutputs({Tensor(DType::kF32, {2, 0})});
}

TEST(Normalize, RefusesWhatIsWrong) {
  const Tensor x = RandomTensor(DType::kF32, {2, 3});
  OperatorCase("F.normalize")
      .Param("dim", "2")
      .Input(x)
      .ExpectError(ErrorCode::kInvalidArgument, "axis 2 is out of range");
  OperatorCase("F.normalize")
      .Param("p", "nuc")
      .Input(x)
      .ExpectError(ErrorCode::kUnsupported, "norm p=nuc");
  OperatorCase("F.normalize")
      .Input(Tensor(DType::kI64, {2, 3}))
      .ExpectError(ErrorCode::kInvalidArgument, "has dtype i64");
}

}  // namespace
}  // namespace oort::testing
