// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>

#include "oort/testing.h"

namespace oort::testing {
namespace {

Tensor Expected(const Tensor& x, int64_t size, double eps, const Tensor& weight) {
  Tensor y(DType::kF64, x.shape());
  for (int64_t begin = 0; begin < x.elements(); begin += size) {
    const double* row = x.data<double>() + begin;
    double squares = 0;
    for (int64_t i = 0; i < size; ++i) squares += row[i] * row[i] / static_cast<double>(size);
    for (int64_t i = 0; i < size; ++i) {
      y.data<double>()[begin + i] =
          row[i] / std::sqrt(squares + eps) * (weight.defined() ? weight.data<double>()[i] : 1.0);
    }
  }
  return y;
}

void ExpectRmsNorm(const Tensor& x, const Shape& normalized) {
  SCOPED_TRACE(x.ToString());
  const Tensor weight = RandomTensor(DType::kF32, normalized, 3);
  OperatorCase("nn.RMSNorm")
      .Param("normalized_shape", normalized.ToString())
      .Param("elementwise_affine", "True")
      .Param("eps", "1.000000e-6")
      .Attribute("weight", weight)
      .Input(x)
      .ExpectLike([&](const std::vector<Tensor>& in) {
        return std::vector<Tensor>{
            Expected(in[0], normalized.elements(), 1e-6, weight.To(DType::kF64))};
      });
  OperatorCase("F.rms_norm")
      .Param("normalized_shape", normalized.ToString())
      .Param("eps", "0.01")
      .Param("weight", "None")
      .Input(x)
      .ExpectLike([&](const std::vector<Tensor>& in) {
        return std::vector<Tensor>{Expected(in[0], normalized.elements(), 0.01, {})};
      });
}

TEST(RmsNorm, ScalesTheLastAxes) {
  ExpectRmsNorm(RandomTensor(DType::kF32, {2, 3, 24}), {24});
  ExpectRmsNorm(RandomTensor(DType::kF32, {2, 3, 24}), {3, 24});
  for (int64_t length : EdgeLengths()) {
    ExpectRmsNorm(RandomTensor(DType::kF32, {3, length}), {length});
  }
}

TEST(RmsNorm, WithoutEpsItIsThatOfTheType) {
  // Small enough for eps to matter; torch computes f16 and bf16 in f32.
  const Tensor x = RandomTensor(DType::kF64, {2, 8}, 3, 1e-4, 3e-4);
  for (const auto& [dtype, eps] : {std::pair{DType::kF64, 2.220446049250313e-16},
                                   std::pair{DType::kF32, 1.1920928955078125e-07},
                                   std::pair{DType::kF16, 1.1920928955078125e-07},
                                   std::pair{DType::kBF16, 1.1920928955078125e-07}}) {
    const Tensor narrow = x.To(dtype);
    OperatorCase("F.rms_norm")
        .Param("normalized_shape", "(8)")
        .Param("eps", "None")
        .Input(narrow)
        .ExpectOutputs({Expected(narrow.To(DType::kF64), 8, eps, {}).To(dtype)});
  }
}

TEST(RmsNorm, RefusesWhatDoesNotFit) {
  const auto expect = [](const Tensor& x, const std::string& shape, std::string_view message) {
    OperatorCase("nn.RMSNorm")
        .Param("normalized_shape", shape)
        .Attribute("weight", RandomTensor(DType::kF32, {4}))
        .Input(x)
        .ExpectError(ErrorCode::kInvalidArgument, message);
  };
  expect(Tensor(DType::kF32, {3, 5}), "(4)", "expected an input whose last extents are (4)");
  expect(Tensor(DType::kF32, {2, 4}), "(2,4)", "expected 'weight' of shape (2,4), got (4)");
  expect(Tensor(DType::kI64, {2, 4}), "(4)", "has dtype i64");
}

}  // namespace
}  // namespace oort::testing
