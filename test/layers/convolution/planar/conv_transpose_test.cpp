// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "test/layers/convolution/conv_reference.h"

namespace oort::testing {
namespace {

/// `x` (N,C,D,H,W), `weight` (C,O/groups,KD,KH,KW): every input is spread over its window.
Tensor Reference(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvSpec& spec,
                 const std::array<int64_t, 3>& extra) {
  const Shape &xs = x.shape(), &ws = weight.shape();
  Shape out{xs[0], ws[1] * spec.groups, 0, 0, 0};
  for (int i = 0; i < 3; ++i) {
    const size_t a = static_cast<size_t>(i);
    out[i + 2] = (xs[i + 2] - 1) * spec.stride[a] - 2 * spec.before[a] +
                 spec.dilation[a] * (ws[i + 2] - 1) + 1 + extra[a];
  }
  Tensor y = Tensor::Zeros(DType::kF64, out);
  double* target = y.data<double>();
  const int64_t group_in = xs[1] / spec.groups, plane = out[2] * out[3] * out[4];
  for (int64_t o = 0; bias.defined() && o < out[0] * out[1]; ++o) {
    std::fill_n(target + o * plane, plane, Element(bias, o % out[1]));
  }
  for (int64_t n = 0; n < xs[0]; ++n)
    for (int64_t c = 0; c < xs[1]; ++c)
      for (int64_t o = 0; o < ws[1]; ++o)
        for (int64_t i = 0; i < ws[2]; ++i)
          for (int64_t j = 0; j < ws[3]; ++j)
            for (int64_t k = 0; k < ws[4]; ++k)
              for (int64_t d = 0; d < xs[2]; ++d)
                for (int64_t h = 0; h < xs[3]; ++h)
                  for (int64_t w = 0; w < xs[4]; ++w) {
                    const int64_t z = d * spec.stride[0] - spec.before[0] + i * spec.dilation[0];
                    const int64_t r = h * spec.stride[1] - spec.before[1] + j * spec.dilation[1];
                    const int64_t q = w * spec.stride[2] - spec.before[2] + k * spec.dilation[2];
                    if (z < 0 || r < 0 || q < 0 || z >= out[2] || r >= out[3] || q >= out[4]) {
                      continue;
                    }
                    const int64_t channel = n * out[1] + c / group_in * ws[1] + o;
                    target[channel * plane + (z * out[3] + r) * out[4] + q] +=
                        At(x, n, c, d, h, w) * At(weight, c, o, i, j, k);
                  }
  return y.To(x.dtype());
}

void Check(int rank, Shape input, Shape weight_shape, bool with_bias, const ConvSpec& spec,
           const std::array<int64_t, 3>& extra = {0, 0, 0}) {
  SCOPED_TRACE("input " + input.ToString() + " weight " + weight_shape.ToString());
  const Tensor x = RandomTensor(DType::kF32, input, 1);
  const Tensor weight = RandomTensor(DType::kF32, weight_shape, 2);
  const Tensor bias =
      with_bias ? RandomTensor(DType::kF32, {weight_shape[1] * spec.groups}, 3) : Tensor();
  const Tensor expected =
      FromVolume(Reference(ToVolume(x, rank), ToVolume(weight, rank), bias, spec, extra), rank);
  const auto with_params = [&](const std::string& type) {
    return OperatorCase(type + std::to_string(rank) + "d")
        .Param("stride", TupleText(spec.stride, rank))
        .Param("dilation", TupleText(spec.dilation, rank))
        .Param("padding", TupleText(spec.before, rank))
        .Param("output_padding", TupleText(extra, rank))
        .Param("groups", std::to_string(spec.groups));
  };
  OperatorCase module = with_params("nn.ConvTranspose");
  module.Attribute("weight", weight);
  if (with_bias) module.Attribute("bias", bias);
  module.Input(x).ExpectOutputs({expected}, {1e-4, 1e-4});
  OperatorCase function = with_params("F.conv_transpose");
  function.Input(x, "input").Input(weight, "weight");
  if (with_bias) function.Input(bias, "bias");
  function.ExpectOutputs({expected}, {1e-4, 1e-4});
}

TEST(ConvTranspose, TakesKernelsStridesAndPadding) {
  for (int64_t kernel : {1, 2, 3, 4}) {
    for (int64_t stride : {1, 2, 3}) {
      for (int64_t pad : {int64_t{0}, kernel / 2}) {
        Check(2, {2, 3, 5, 6}, {3, 4, kernel, kernel}, stride == 2,
              {.stride = {1, stride, stride}, .before = {0, pad, pad}});
      }
    }
  }
}

TEST(ConvTranspose, TakesOutputPadding) {
  Check(2, {1, 2, 5, 6}, {2, 3, 3, 3}, true, {.stride = {1, 2, 3}, .before = {0, 1, 0}}, {0, 1, 2});
  Check(2, {1, 2, 5, 6}, {2, 3, 3, 3}, true, {.dilation = {1, 3, 1}, .before = {0, 2, 0}},
        {0, 2, 0});
}

TEST(ConvTranspose, TakesGroupsAndDilation) {
  Check(2, {2, 6, 5, 6}, {6, 2, 3, 2}, true,
        {.stride = {1, 2, 1}, .dilation = {1, 2, 3}, .before = {0, 1, 2}, .groups = 3});
  Check(2, {1, 8, 9, 9}, {8, 1, 3, 3}, false, {.stride = {1, 2, 2}, .groups = 8});
}

TEST(ConvTranspose, TakesOneAndThreeAxes) {
  Check(1, {2, 4, 9}, {4, 3, 3}, true, {.stride = {1, 1, 2}, .before = {0, 0, 1}}, {0, 0, 1});
  Check(3, {1, 4, 3, 4, 5}, {4, 2, 2, 3, 2}, true,
        {.stride = {2, 1, 2}, .dilation = {1, 2, 1}, .before = {1, 0, 1}, .groups = 2}, {1, 0, 0});
}

TEST(ConvTranspose, TakesLargeImagesAndEmptyBatches) {
  Check(2, {1, 40, 20, 20}, {40, 30, 4, 4}, true, {.stride = {1, 2, 2}, .before = {0, 1, 1}});
  Check(2, {0, 2, 5, 6}, {2, 3, 3, 3}, true, {});
}

TEST(ConvTranspose, TakesInputsWithoutABatch) {
  const Tensor x = Tensor::From<float>({1, 2}, {1, 2});
  const Tensor weight = Tensor::From<float>({1, 10, 100}, {1, 1, 3});
  OperatorCase("nn.ConvTranspose1d")
      .Attribute("weight", weight)
      .Input(x)
      .ExpectOutputs({Tensor::From<float>({1, 12, 120, 200}, {1, 4})});
}

TEST(ConvTranspose, RefusesBadParameters) {
  const auto small = [] {
    return OperatorCase("nn.ConvTranspose2d")
        .Attribute("weight", RandomTensor(DType::kF32, {2, 4, 3, 3}))
        .Input(RandomTensor(DType::kF32, {1, 2, 5, 5}));
  };
  small().Param("stride", "0").ExpectError(ErrorCode::kInvalidModel, "at least 1");
  small().Param("groups", "-1").ExpectError(ErrorCode::kInvalidModel, "at least 1");
  small().Param("groups", "3").ExpectError(ErrorCode::kInvalidArgument, "divide into 3 groups");
  small()
      .Param("output_padding", "(1,0)")
      .ExpectError(ErrorCode::kInvalidArgument, "output_padding below the stride");
  small().Param("padding", "(9,0)").ExpectError(ErrorCode::kInvalidArgument, "at least 1, got");
  small().Param("padding", "same").ExpectError(ErrorCode::kInvalidModel, "padding");
  small().Param("padding_mode", "reflect").ExpectError(ErrorCode::kInvalidModel, "one of zeros");
  small()
      .Param("stride", "(9223372036854775807,1)")
      .ExpectError(ErrorCode::kInvalidArgument, "stride 9223372036854775807 is not in");
  small()
      .Param("output_padding", "2147483648")
      .ExpectError(ErrorCode::kInvalidArgument, "output_padding 2147483648 is not in");
  small()
      .Param("stride", "(2147483647,2147483647)")
      .ExpectError(ErrorCode::kInvalidArgument, "overflow");
}

TEST(ConvTranspose, TakesEveryFloat) {
  const ConvSpec spec{.stride = {1, 2, 1}, .dilation = {1, 1, 2}, .before = {0, 1, 1}, .groups = 2};
  const Tensor x = RandomTensor(DType::kF32, {2, 4, 5, 6}, 1);
  const Tensor weight = RandomTensor(DType::kF32, {4, 3, 3, 2}, 2);
  const Tensor bias = RandomTensor(DType::kF32, {6}, 3);
  ExpectEveryFloat(
      [&](const Convert& convert) {
        return OperatorCase("nn.ConvTranspose2d")
            .Param("stride", "(2,1)")
            .Param("dilation", "(1,2)")
            .Param("padding", "(1,1)")
            .Param("groups", "2")
            .Attribute("weight", convert(weight))
            .Attribute("bias", convert(bias))
            .Input(convert(x));
      },
      [&](const Convert& convert) -> std::vector<Tensor> {
        return {FromVolume(Reference(ToVolume(convert(x), 2), ToVolume(convert(weight), 2),
                                     convert(bias), spec, {0, 0, 0}),
                           2)};
      });
}

}  // namespace
}  // namespace oort::testing
