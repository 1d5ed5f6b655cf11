// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>

#include "test/kit/every_float.h"

namespace oort::testing {
namespace {

/// x (…,in) by weight (out,in) plus bias (out), in double precision.
Tensor Reference(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const int64_t in = weight.dim(1), out = weight.dim(0);
  Shape shape = x.shape();
  shape[shape.rank() - 1] = out;
  Tensor y(DType::kF64, shape);
  for (int64_t row = 0; row < shape.Product(0, shape.rank() - 1); ++row) {
    for (int64_t o = 0; o < out; ++o) {
      double sum = bias.defined() ? Element(bias, o) : 0.0;
      for (int64_t i = 0; i < in; ++i) {
        sum += Element(x, row * in + i) * Element(weight, o * in + i);
      }
      y.data<double>()[row * out + o] = sum;
    }
  }
  return y.To(x.dtype());
}

void Check(Shape input, int64_t out, bool with_bias) {
  SCOPED_TRACE(input.ToString() + " to " + std::to_string(out));
  const int64_t in = input[input.rank() - 1];
  const Tensor x = RandomTensor(DType::kF32, input, 1);
  const Tensor weight = RandomTensor(DType::kF32, {out, in}, 2);
  const Tensor bias = with_bias ? RandomTensor(DType::kF32, {out}, 3) : Tensor();
  const Tensor expected = Reference(x, weight, bias);
  const Tolerance tolerance{1e-4, 1e-4};
  OperatorCase module("nn.Linear");
  module.Param("in_features", std::to_string(in)).Attribute("weight", weight);
  if (with_bias) module.Attribute("bias", bias);
  module.Input(x).ExpectOutputs({expected}, tolerance);
  OperatorCase function("F.linear");
  function.Input(x, "input").Input(weight, "weight");
  if (with_bias) function.Input(bias, "bias");
  function.ExpectOutputs({expected}, tolerance);
}

TEST(Linear, TakesEverySize) {
  for (int64_t rows : {1, 2, 7, 8, 9, 50}) {
    for (int64_t out : {1, 3, 12, 13, 32, 40}) {
      for (int64_t in : {1, 16, 33}) Check({rows, in}, out, rows % 2 == 0);
    }
  }
  Check({70, 700}, 200, true);
  Check({1, 1000}, 300, true);
}

TEST(Linear, TakesInputsOfEveryRank) {
  Check({5}, 4, true);
  Check({2, 3, 5}, 4, false);
  Check({2, 1, 3, 2, 5}, 4, true);
}

TEST(Linear, TakesInputsWithoutElements) {
  Check({0, 5}, 4, true);
  Check({3, 0, 5}, 4, true);
  Check({3, 0}, 4, true);  // sums over nothing: the bias
  Check({3, 5}, 0, false);
}

TEST(Linear, TakesAWeightOfOneAxis) {
  const Tensor x = Tensor::From<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  const Tensor weight = Tensor::From<float>({1, 10, 100}, {3});
  OperatorCase("F.linear")
      .Input(x, "input")
      .Input(weight, "weight")
      .ExpectOutputs({Tensor::From<float>({321, 654}, {2})});
  OperatorCase("F.linear")
      .Input(x, "input")
      .Constant(weight, "weight")
      .Constant(Tensor::Scalar(0.5f), "bias")
      .ExpectOutputs({Tensor::From<float>({321.5, 654.5}, {2})});
}

TEST(Linear, TakesASharedWeightAsFirstInput) {
  const Tensor x = RandomTensor(DType::kF32, {3, 5}, 1);
  const Tensor weight = RandomTensor(DType::kF32, {4, 5}, 2);
  OperatorCase("nn.Linear")
      .Constant(weight)
      .Input(x)
      .ExpectOutputs({Reference(x, weight, Tensor())});
  OperatorCase("nn.Linear").Input(weight).Input(x).ExpectOutputs({Reference(x, weight, Tensor())});
}

TEST(Linear, TakesHalfWeights) {
  const Tensor x = RandomTensor(DType::kF32, {3, 5}, 1);
  for (DType dtype : {DType::kF16, DType::kBF16}) {
    const Tensor weight = RandomTensor(DType::kF32, {4, 5}, 2).To(dtype);
    OperatorCase("nn.Linear")
        .Attribute("weight", weight)
        .Input(x)
        .ExpectOutputs({Reference(x, weight.To(DType::kF32), Tensor())});
  }
}

TEST(Linear, TakesEveryFloat) {
  for (int64_t in : {0, 1, 7, 40}) {
    const Tensor x = RandomTensor(DType::kF32, {2, 3, in}, 1);
    const Tensor weight = RandomTensor(DType::kF32, {5, in}, 2);
    const Tensor bias = RandomTensor(DType::kF32, {5}, 3);
    const auto reference = [&](const Convert& convert) -> std::vector<Tensor> {
      return {Reference(convert(x), convert(weight), convert(bias))};
    };
    ExpectEveryFloat(
        [&](const Convert& convert) {
          return OperatorCase("nn.Linear")
              .Attribute("weight", convert(weight))
              .Attribute("bias", convert(bias))
              .Input(convert(x));
        },
        reference);
    ExpectEveryFloat(
        [&](const Convert& convert) {
          return OperatorCase("F.linear")
              .Input(convert(x), "input")
              .Constant(convert(weight), "weight")
              .Input(convert(bias), "bias");
        },
        reference);
  }
}

/// A bias or weight of f16 that the model holds serves an input of f32.
TEST(Linear, TakesHalfConstants) {
  const Tensor x = RandomTensor(DType::kF32, {3, 5}, 1);
  const Tensor weight = RandomTensor(DType::kF16, {4, 5}, 2);
  OperatorCase("F.linear")
      .Input(x, "input")
      .Constant(weight, "weight")
      .ExpectOutputs({Reference(x, weight.To(DType::kF32), Tensor())});
}

TEST(Linear, RefusesWhatDoesNotFit) {
  const auto linear = [](Shape input, Shape weight) {
    return OperatorCase("nn.Linear")
        .Attribute("weight", RandomTensor(DType::kF32, weight))
        .Input(RandomTensor(DType::kF32, input));
  };
  linear({3, 4}, {2, 5}).ExpectError(ErrorCode::kInvalidArgument, "last axis is 5, got (3,4)");
  linear({}, {2, 5}).ExpectError(ErrorCode::kInvalidArgument, "last axis is 5");
  linear({3, 4}, {2, 4, 1}).ExpectError(ErrorCode::kInvalidArgument, "rank 1 or 2");
  linear({3, 4}, {2, 4})
      .Attribute("bias", RandomTensor(DType::kF32, {3}))
      .ExpectError(ErrorCode::kInvalidArgument, "'bias' of shape (2), got (3)");
  OperatorCase("nn.Linear")
      .Attribute("weight", RandomTensor(DType::kF32, {2, 4}))
      .Input(RandomTensor(DType::kI64, {3, 4}))
      .ExpectError(ErrorCode::kInvalidArgument, "i64");
  OperatorCase("F.linear")
      .Input(RandomTensor(DType::kF32, {3, 4}), "input")
      .Input(RandomTensor(DType::kF64, {2, 4}), "weight")
      .ExpectError(ErrorCode::kInvalidArgument, "one dtype, f32, got dtype f64");
  OperatorCase("nn.Linear")
      .Input(RandomTensor(DType::kF32, {3, 4}))
      .ExpectError(ErrorCode::kInvalidModel, "weight");
}

TEST(Bilinear, MultipliesFromBothSides) {
  const Tensor a = Tensor::From<float>({1, 2, 0, -1}, {2, 2});
  const Tensor b = Tensor::From<float>({3, 1, 2, 5}, {2, 2});
  const Tensor weight = Tensor::From<float>({1, 0, 0, 1, 0, 2, -1, 0}, {2, 2, 2});
  const Tensor bias = Tensor::From<float>({10, 20}, {2});
  // a·b, and 2 a0 b1 - a1 b0.
  OperatorCase("F.bilinear")
      .Input(a, "input1")
      .Input(b, "input2")
      .Input(weight, "weight")
      .Input(bias, "bias")
      .ExpectOutputs({Tensor::From<float>({15, 16, 5, 22}, {2, 2})});
}

TEST(FusedLinear, AddsAndActivates) {
  for (int64_t rows : {1, 3, 40}) {
    const Tensor x = RandomTensor(DType::kF32, {2, rows, 33}, 1);
    const Tensor weight = RandomTensor(DType::kF32, {29, 33}, 2);
    const Tensor bias = RandomTensor(DType::kF32, {29}, 3);
    const Tensor addend = RandomTensor(DType::kF32, {2, rows, 29}, 4);
    Tensor expected = Reference(x, weight, bias).To(DType::kF64);
    for (int64_t i = 0; i < expected.elements(); ++i) {
      const double sum = Element(expected, i) + Element(addend, i);
      expected.data<double>()[i] = sum > 0 ? sum : 0.25 * sum;
    }
    OperatorCase("oort.Linear")
        .Attribute("weight", weight)
        .Attribute("bias", bias)
        .Param("activation", "leaky_relu")
        .Param("activation_a", "0.25")
        .Input(x)
        .Input(addend)
        .ExpectOutputs({expected.To(DType::kF32)}, {1e-4, 1e-4});
  }
}

/// The weight that the layer has packed in f32 serves its parts, which have the dtype of the input.
TEST(FusedLinear, TakesEveryFloat) {
  const Tensor x = RandomTensor(DType::kF32, {2, 3, 33}, 1);
  const Tensor weight = RandomTensor(DType::kF32, {5, 33}, 2);
  const Tensor bias = RandomTensor(DType::kF32, {5}, 3);
  for (const bool activates : {false, true}) {
    ExpectEveryFloat(
        [&](const Convert& convert) {
          OperatorCase fused("oort.Linear");
          fused.Attribute("weight", convert(weight)).Attribute("bias", convert(bias));
          if (activates) fused.Param("activation", "relu");
          return fused.Input(convert(x));
        },
        [&](const Convert& convert) -> std::vector<Tensor> {
          Tensor y = Reference(convert(x), convert(weight), convert(bias)).To(DType::kF64);
          double* const elements = y.data<double>();
          for (int64_t i = 0; activates && i < y.elements(); ++i) {
            elements[i] = std::max(elements[i], 0.0);
          }
          return {y};
        });
  }
}

TEST(FusedLinear, RefusesWhatDoesNotFit) {
  const Tensor weight = RandomTensor(DType::kF32, {4, 3}, 2);
  const auto linear = [&] { return OperatorCase("oort.Linear").Attribute("weight", weight); };
  const Tensor x = RandomTensor(DType::kF32, {2, 3}, 1);
  linear().Param("activation", "softmax").Input(x).ExpectError(ErrorCode::kInvalidModel, "softmax");
  linear()
      .Param("activation", "elu")
      .Param("activation_a", "1e300")
      .Input(x)
      .ExpectError(ErrorCode::kInvalidModel, "f32");
  linear()
      .Input(RandomTensor(DType::kF32, {2, 4}, 1))
      .ExpectError(ErrorCode::kInvalidArgument, "last axis is 3");
  linear()
      .Input(x)
      .Input(RandomTensor(DType::kF32, {3, 4}, 1))
      .ExpectError(ErrorCode::kInvalidArgument, "");
}

}  // namespace
}  // namespace oort::testing
