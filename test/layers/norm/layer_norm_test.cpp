// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "norm_reference.h"

namespace oort::testing {
namespace {

void ExpectLayerNorm(const Tensor& x, const Shape& normalized) {
  SCOPED_TRACE(x.ToString() + " over " + normalized.ToString());
  const int64_t size = normalized.elements();
  const Tensor weight = RandomTensor(DType::kF32, normalized, 3);
  const Tensor bias = RandomTensor(DType::kF32, normalized, 4);
  const auto row = [size](int64_t i) { return i / size; };
  const auto place = [size](int64_t i) { return i % size; };
  OperatorCase("nn.LayerNorm")
      .Param("normalized_shape", normalized.ToString())
      .Param("elementwise_affine", "True")
      .Param("eps", "1.000000e-5")
      .Attribute("weight", weight)
      .Attribute("bias", bias)
      .Input(x)
      .ExpectLike([&](const std::vector<Tensor>& in) {
        return std::vector<Tensor>{
            Normalized(in[0], 1e-5, row, ByIndex(weight, place), ByIndex(bias, place))};
      });
  OperatorCase("F.layer_norm")
      .Param("normalized_shape", normalized.ToString())
      .Param("eps", "0.01")
      .Param("weight", "None")
      .Param("bias", "None")
      .Input(x)
      .ExpectLike([&](const std::vector<Tensor>& in) {
        return std::vector<Tensor>{Normalized(in[0], 0.01, row)};
      });
}

TEST(LayerNorm, NormalizesTheLastAxes) {
  ExpectLayerNorm(RandomTensor(DType::kF32, {2, 3, 24}), {24});
  ExpectLayerNorm(RandomTensor(DType::kF32, {2, 3, 24}), {3, 24});
  ExpectLayerNorm(RandomTensor(DType::kF32, {2, 5, 3, 7}), {5, 3, 7});
  ExpectLayerNorm(RandomTensor(DType::kF32, {17}), {17});
  ExpectLayerNorm(RandomTensor(DType::kF32, {50, 768}), {768});
}

TEST(LayerNorm, WorksOnEdgeLengths) {
  for (int64_t length : EdgeLengths()) {
    ExpectLayerNorm(RandomTensor(DType::kF32, {3, length}), {length});
  }
  ExpectLayerNorm(Tensor(DType::kF32, {0, 5}), {5});
}

TEST(LayerNorm, TakesWeightAloneAndBiasAlone) {
  const Tensor x = RandomTensor(DType::kF32, {4, 19}), w = RandomTensor(DType::kF32, {19}, 5);
  for (const std::string name : {"weight", "bias"}) {
    OperatorCase("F.layer_norm")
        .Param("normalized_shape", "(19)")
        .Input(x, "input")
        .Input(w, name)
        .ExpectLike([&](const std::vector<Tensor>& in) {
          const auto value = [&](int64_t i) { return in[1].data<double>()[i % 19]; };
          const auto row = [](int64_t i) { return i / 19; };
          return std::vector<Tensor>{name == "weight"
                                         ? Normalized(in[0], 1e-5, row, value)
                                         : Normalized(in[0], 1e-5, row, nullptr, value)};
        });
  }
}

TEST(LayerNorm, KeepsItsDigitsUnderALargeMean) {
  // Deviations of about 0.01 around 1000: the naive E[x^2] - E[x]^2 has no digit left.
  const Tensor x = RandomTensor(DType::kF32, {3, 777}, 8, 1000, 1000.03);
  const Tensor got =
      OperatorCase("F.layer_norm").Param("normalized_shape", "(777)").Input(x).Run()[0];
  const Tensor want =
      Normalized(x.To(DType::kF64), 1e-5, [](int64_t i) { return i / 777; }).To(DType::kF32);
  ExpectNear(got, want, {2e-5, 1e-5});
}

TEST(LayerNorm, InfinityGivesNan) {
  OperatorCase("F.layer_norm")
      .Param("normalized_shape", "(2)")
      .Input(Tensor::From<float>({1, INFINITY, 1, 3}, {2, 2}))
      .ExpectOutputs({Tensor::From<float>({NAN, NAN, -0.999995f, 0.999995f}, {2, 2})});
}

TEST(LayerNorm, RefusesWhatDoesNotFit) {
  const auto expect = [](const Tensor& x, const std::string& shape, std::string_view message) {
    OperatorCase("nn.LayerNorm")
        .Param("normalized_shape", shape)
        .Attribute("weight", RandomTensor(DType::kF32, {4}))
        .Input(x)
        .ExpectError(ErrorCode::kInvalidArgument, message);
  };
  expect(Tensor(DType::kF32, {3, 5}), "(4)", "expected an input whose last extents are (4)");
  expect(Tensor(DType::kF32, {4}), "(3,4)", "expected an input whose last extents are (3,4)");
  expect(Tensor(DType::kF32, {2, 4}), "(2,4)", "expected 'weight' of shape (2,4), got (4)");
  expect(Tensor(DType::kF32, {2, 4}), "(-4)", "negative extent");
  expect(Tensor(DType::kI64, {2, 4}), "(4)", "has dtype i64");
}

}  // namespace
}  // namespace oort::testing
