// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>

#include "test/layers/convolution/conv_reference.h"

namespace oort::testing {
namespace {

std::string Rank(int rank) { return std::to_string(rank) + "d"; }

/// Runs nn.ConvNd and F.convNd, weights as attributes, constants and inputs, against the sums.
/// The tensors have `rank` spatial axes.
void Check(int rank, const Tensor& x, const Tensor& weight, const Tensor& bias,
           const ConvSpec& spec) {
  const Tensor expected =
      FromVolume(ReferenceConv(ToVolume(x, rank), ToVolume(weight, rank), bias, spec), rank);
  const auto with_params = [&](OperatorCase operator_case) {
    operator_case.Param("stride", TupleText(spec.stride, rank))
        .Param("dilation", TupleText(spec.dilation, rank))
        .Param("padding", TupleText(spec.before, rank))
        .Param("groups", std::to_string(spec.groups));
    return operator_case;
  };
  const Tolerance tolerance{1e-4, 1e-4};
  OperatorCase module = with_params(OperatorCase("nn.Conv" + Rank(rank)));
  module.Param("padding_mode", "zeros").Attribute("weight", weight);
  if (bias.defined()) module.Attribute("bias", bias);
  module.Input(x).ExpectOutputs({expected}, tolerance);

  OperatorCase function = with_params(OperatorCase("F.conv" + Rank(rank)));
  function.Input(x, "input").Input(weight, "weight");
  if (bias.defined()) function.Input(bias, "bias");
  function.ExpectOutputs({expected}, tolerance);
}

void Check2d(Shape input, Shape weight, bool bias, ConvSpec spec = {}) {
  SCOPED_TRACE("input " + input.ToString() + " weight " + weight.ToString());
  spec.after = spec.before;
  Check(2, RandomTensor(DType::kF32, input, 1), RandomTensor(DType::kF32, weight, 2),
        bias ? RandomTensor(DType::kF32, {weight[0]}, 3) : Tensor(), spec);
}

Tensor Expected2d(const Tensor& x, const Tensor& weight, const ConvSpec& spec = {}) {
  return FromVolume(ReferenceConv(ToVolume(x, 2), ToVolume(weight, 2), Tensor(), spec), 2);
}

TEST(Conv, TakesKernelsOfEverySize) {
  for (int64_t h : {1, 2, 3, 5}) {
    for (int64_t w : {1, 2, 3, 7}) {
      Check2d({2, 3, 9, 14}, {5, 3, h, w}, h % 2 == 1, {.before = {0, h / 2, w / 2}});
    }
  }
}

/// Many planes that are smaller than a vector: reads must stay inside the image.
TEST(Conv, TakesManySmallPlanes) {
  for (int64_t size : {1, 2, 3}) {
    for (int64_t stride : {1, 2}) {
      Check2d({1, 21, size, size}, {4, 21, 3, 3}, true,
              {.stride = {1, stride, stride}, .before = {0, 1, 1}});
    }
  }
}

TEST(Conv, TakesStridesAndDilations) {
  for (int64_t stride : {1, 2, 3}) {
    for (int64_t dilation : {1, 2, 3}) {
      Check2d(
          {1, 4, 17, 23}, {9, 4, 3, 3}, true,
          {.stride = {1, stride, 4 - stride}, .dilation = {1, dilation, 1}, .before = {0, 1, 2}});
      Check2d({1, 4, 17, 23}, {9, 4, 3, 3}, true,
              {.stride = {1, 1, stride}, .dilation = {1, 1, dilation}, .before = {0, 0, 5}});
    }
  }
}

TEST(Conv, TakesEveryWidth) {
  for (int64_t width = 1; width <= 36; ++width) {
    Check2d({1, 2, 3, width}, {3, 2, 3, 3}, false, {.before = {0, 1, 1}});
    Check2d({1, 2, 5, width}, {3, 2, 3, 3}, true, {.stride = {1, 2, 2}, .before = {0, 1, 1}});
  }
}

TEST(Conv, TakesOneByOneKernels) {
  for (int64_t channels : {1, 7, 8, 9, 33}) {
    Check2d({2, channels, 5, 5}, {channels + 1, channels, 1, 1}, true);
    Check2d({1, channels, 1, 1}, {20, channels, 1, 1}, true);
    Check2d({1, channels, 6, 7}, {4, channels, 1, 1}, false, {.stride = {1, 2, 2}});
    Check2d({1, channels, 3, 4}, {4, channels, 1, 1}, false, {.before = {0, 2, 1}});
  }
}

TEST(Conv, TakesGroups) {
  Check2d({2, 6, 8, 9}, {4, 3, 3, 3}, true, {.before = {0, 1, 1}, .groups = 2});
  Check2d({2, 6, 8, 9}, {9, 2, 3, 3}, false, {.before = {0, 1, 1}, .groups = 3});
  Check2d({1, 64, 6, 6}, {64, 8, 1, 1}, true, {.groups = 8});
}

TEST(Conv, TakesDepthwiseKernels) {
  for (int64_t kernel : {1, 2, 3, 5}) {
    for (int64_t stride : {1, 2, 3}) {
      for (int64_t width : {kernel, int64_t{7}, int64_t{12}, int64_t{19}, int64_t{33}}) {
        Check2d(
            {2, 3, kernel + 3, width}, {3, 1, kernel, kernel}, true,
            {.stride = {1, stride, stride}, .before = {0, kernel / 2, kernel / 2}, .groups = 3});
      }
    }
  }
  Check2d({1, 4, 9, 11}, {4, 1, 3, 5}, false,
          {.stride = {1, 1, 2}, .dilation = {1, 2, 3}, .before = {0, 3, 6}, .groups = 4});
  Check2d({2, 3, 9, 11}, {6, 1, 3, 3}, true, {.before = {0, 1, 1}, .groups = 3});
  Check2d({1, 2, 4, 4}, {2, 1, 3, 3}, true, {.before = {0, 7, 9}, .groups = 2});
}

TEST(Conv, TakesLargeImages) {
  Check2d({1, 16, 40, 50}, {24, 16, 3, 3}, true, {.before = {0, 1, 1}});
  Check2d({3, 96, 13, 13}, {70, 96, 3, 3}, true, {.before = {0, 1, 1}});
  Check2d({1, 40, 30, 30}, {130, 40, 1, 1}, true);
}

TEST(Conv, TakesOneAndThreeAxes) {
  for (int64_t length : {5, 12, 31}) {
    Check(1, RandomTensor(DType::kF32, {2, 6, length}, 1), RandomTensor(DType::kF32, {8, 3, 3}, 2),
          RandomTensor(DType::kF32, {8}, 3),
          {.stride = {1, 1, 2},
           .dilation = {1, 1, 2},
           .before = {0, 0, 3},
           .after = {0, 0, 3},
           .groups = 2});
  }
  Check(3, RandomTensor(DType::kF32, {2, 4, 5, 6, 7}, 1),
        RandomTensor(DType::kF32, {6, 2, 2, 3, 1}, 2), RandomTensor(DType::kF32, {6}, 3),
        {.stride = {1, 2, 1},
         .dilation = {2, 1, 1},
         .before = {1, 1, 0},
         .after = {1, 1, 0},
         .groups = 2});
  Check(3, RandomTensor(DType::kF32, {1, 3, 5, 6, 7}, 1),
        RandomTensor(DType::kF32, {3, 1, 3, 3, 3}, 2), Tensor(),
        {.before = {1, 1, 1}, .after = {1, 1, 1}, .groups = 3});
}

TEST(Conv, PadsSameWithTheExtraAtTheEnd) {
  const Tensor x = RandomTensor(DType::kF32, {1, 2, 7, 9}, 1);
  const Tensor weight = RandomTensor(DType::kF32, {3, 2, 4, 3}, 2);
  const Tensor expected =
      Expected2d(x, weight, {.dilation = {1, 1, 2}, .before = {0, 1, 2}, .after = {0, 2, 2}});
  ASSERT_EQ(expected.shape(), (Shape{1, 3, 7, 9}));
  OperatorCase("nn.Conv2d")
      .Param("padding", "same")
      .Param("dilation", "(1,2)")
      .Attribute("weight", weight)
      .Input(x)
      .ExpectOutputs({expected});
  OperatorCase("F.conv2d")
      .Param("padding", "same")
      .Param("dilation", "(1,2)")
      .Input(x, "input")
      .Constant(weight, "weight")
      .ExpectOutputs({expected});
}

TEST(Conv, PadsValidWithNothing) {
  const Tensor x = RandomTensor(DType::kF32, {1, 2, 7, 9}, 1);
  const Tensor weight = RandomTensor(DType::kF32, {3, 2, 4, 3}, 2);
  OperatorCase("nn.Conv2d")
      .Param("padding", "valid")
      .Attribute("weight", weight)
      .Input(x)
      .ExpectOutputs({Expected2d(x, weight)});
}

/// A padded copy of a (1,C,L) tensor; `index` maps a position that may lie outside to one inside.
template <typename Index>
Tensor PadLine(const Tensor& x, int64_t pad, Index index) {
  const int64_t channels = x.shape()[1], length = x.shape()[2];
  Tensor y(DType::kF32, {1, channels, length + 2 * pad});
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t i = 0; i < length + 2 * pad; ++i) {
      y.data<float>()[c * (length + 2 * pad) + i] =
          x.data<float>()[c * length + index(i - pad, length)];
    }
  }
  return y;
}

TEST(Conv, PadsByMode) {
  const Tensor x = RandomTensor(DType::kF32, {1, 3, 8}, 1);
  const Tensor weight = RandomTensor(DType::kF32, {4, 3, 3}, 2);
  const auto check = [&](const char* mode, const Tensor& padded) {
    const Tensor expected =
        FromVolume(ReferenceConv(ToVolume(padded, 1), ToVolume(weight, 1), Tensor(), {}), 1);
    OperatorCase("nn.Conv1d")
        .Param("padding", "(2)")
        .Param("padding_mode", mode)
        .Attribute("weight", weight)
        .Input(x)
        .ExpectOutputs({expected});
  };
  check("reflect", PadLine(x, 2, [](int64_t i, int64_t n) {
          return i < 0 ? -i : i >= n ? 2 * n - 2 - i : i;
        }));
  check("replicate", PadLine(x, 2, [](int64_t i, int64_t n) {
          return std::min(std::max<int64_t>(i, 0), n - 1);
        }));
  check("circular", PadLine(x, 2, [](int64_t i, int64_t n) { return (i + n) % n; }));
  OperatorCase("nn.Conv1d")
      .Param("padding", "(8)")
      .Param("padding_mode", "reflect")
      .Attribute("weight", weight)
      .Input(x)
      .ExpectError(ErrorCode::kInvalidArgument, "cannot pad");
}

TEST(Conv, TakesPaddingOfBothSidesAsTorchPads) {
  const Tensor x = RandomTensor(DType::kF32, {2, 3, 5, 6}, 1);
  const Tensor weight = RandomTensor(DType::kF32, {4, 3, 2, 3}, 2);
  // (left, right, top, bottom): the axes of the image, last first.
  const Tensor padded =
      OperatorCase("F.pad").Param("mode", "circular").Param("pad", "(2,1,0,3)").Input(x).Run()[0];
  OperatorCase("nn.Conv2d")
      .Param("padding", "(2,1,0,3)")
      .Param("padding_mode", "circular")
      .Attribute("weight", weight)
      .Input(x)
      .ExpectOutputs({Expected2d(padded, weight)});
  OperatorCase("nn.Conv2d")
      .Param("padding", "(2,1,0,3)")
      .Attribute("weight", weight)
      .Input(x)
      .ExpectError(ErrorCode::kInvalidArgument, "expected padding of 2 elements");
}

TEST(Conv, TakesLostPaddingForSame) {
  const Tensor x = RandomTensor(DType::kF32, {2, 3, 8}, 1);
  const Tensor weight = RandomTensor(DType::kF32, {4, 3, 4}, 2);
  const auto conv = [&](const char* padding) {
    return OperatorCase("nn.Conv1d")
        .Param("padding", padding)
        .Param("padding_mode", "reflect")
        .Attribute("weight", weight)
        .Input(x);
  };
  conv("()").ExpectOutputs(conv("(1,2)").Run());
  EXPECT_EQ(conv("()").Run()[0].shape(), Shape({2, 4, 8}));
  OperatorCase("nn.Conv1d")
      .Param("padding", "()")
      .Attribute("weight", weight)
      .Input(x)
      .ExpectError(ErrorCode::kInvalidArgument, "expected padding of 1 elements");
}

TEST(Conv, TakesInputsWithoutABatch) {
  const Tensor x = RandomTensor(DType::kF32, {1, 4, 6, 7}, 1);
  const Tensor weight = RandomTensor(DType::kF32, {5, 4, 3, 3}, 2);
  OperatorCase("nn.Conv2d")
      .Attribute("weight", weight)
      .Input(x.Reshaped({4, 6, 7}))
      .ExpectOutputs({Expected2d(x, weight).Reshaped({5, 4, 5})});
}

TEST(Conv, TakesASharedWeightAsFirstInput) {
  const Tensor x = RandomTensor(DType::kF32, {1, 4, 6, 7}, 1);
  const Tensor weight = RandomTensor(DType::kF32, {5, 4, 3, 3}, 2);
  OperatorCase("nn.Conv2d").Constant(weight).Input(x).ExpectOutputs({Expected2d(x, weight)});
  OperatorCase("nn.Conv2d").Input(weight).Input(x).ExpectOutputs({Expected2d(x, weight)});
}

TEST(Conv, TakesHalfWeights) {
  const Tensor x = RandomTensor(DType::kF32, {1, 4, 6, 7}, 1);
  for (DType dtype : {DType::kF16, DType::kBF16}) {
    const Tensor weight = RandomTensor(DType::kF32, {5, 4, 3, 3}, 2).To(dtype);
    OperatorCase("nn.Conv2d")
        .Attribute("weight", weight)
        .Input(x)
        .ExpectOutputs({Expected2d(x, weight.To(DType::kF32))});
  }
}

TEST(Conv, TakesEveryFloat) {
  const Tensor x = RandomTensor(DType::kF32, {2, 4, 6, 7}, 1);
  const Tensor weight = RandomTensor(DType::kF32, {6, 2, 3, 2}, 2);
  const Tensor bias = RandomTensor(DType::kF32, {6}, 3);
  const ConvSpec spec{.stride = {1, 2, 1},
                      .dilation = {1, 1, 2},
                      .before = {0, 1, 2},
                      .after = {0, 1, 2},
                      .groups = 2};
  const auto reference = [&](const Convert& convert) -> std::vector<Tensor> {
    return {FromVolume(
        ReferenceConv(ToVolume(convert(x), 2), ToVolume(convert(weight), 2), convert(bias), spec),
        2)};
  };
  const auto with_params = [](const char* type) {
    return OperatorCase(type)
        .Param("stride", "(2,1)")
        .Param("dilation", "(1,2)")
        .Param("padding", "(1,2)")
        .Param("groups", "2");
  };
  ExpectEveryFloat(
      [&](const Convert& convert) {
        return with_params("nn.Conv2d")
            .Attribute("weight", convert(weight))
            .Attribute("bias", convert(bias))
            .Input(convert(x));
      },
      reference);
  ExpectEveryFloat(
      [&](const Convert& convert) {
        return with_params("F.conv2d")
            .Input(convert(x), "input")
            .Input(convert(weight), "weight")
            .Constant(convert(bias), "bias");
      },
      reference);
}

TEST(Conv, PadsEveryFloat) {
  const Tensor x = RandomTensor(DType::kF32, {2, 3, 6}, 1);
  const Tensor weight = RandomTensor(DType::kF32, {4, 3, 3}, 2);
  ExpectEveryFloat(
      [&](const Convert& convert) {
        return OperatorCase("nn.Conv1d")
            .Param("padding", "(1)")
            .Param("padding_mode", "replicate")
            .Attribute("weight", convert(weight))
            .Input(convert(x));
      },
      [&](const Convert& convert) -> std::vector<Tensor> {
        const Tensor image = convert(x);
        Tensor padded(DType::kF64, {2, 3, 8});
        for (int64_t i = 0; i < padded.elements(); ++i) {
          const int64_t at = std::clamp<int64_t>(i % 8 - 1, 0, 5);
          padded.data<double>()[i] = Element(image, i / 8 * 6 + at);
        }
        return {FromVolume(
            ReferenceConv(ToVolume(padded, 1), ToVolume(convert(weight), 1), Tensor(), {}), 1)};
      });
}

/// What pnnx folds into a network of 16 bits is f32.
TEST(Conv, TakesHalvesWithFoldedWeights) {
  const Tensor x = RandomTensor(DType::kF16, {1, 4, 6, 7}, 1);
  const Tensor weight = RandomTensor(DType::kF32, {5, 4, 3, 3}, 2);
  OperatorCase("nn.Conv2d")
      .Attribute("weight", weight)
      .Input(x)
      .ExpectOutputs({Expected2d(x.To(DType::kF32), weight).To(DType::kF16)});
}

TEST(Conv, TakesEmptyBatches) {
  OperatorCase("nn.Conv2d")
      .Attribute("weight", RandomTensor(DType::kF32, {5, 4, 3, 3}))
      .Input(Tensor(DType::kF32, {0, 4, 6, 7}))
      .ExpectOutputs({Tensor(DType::kF32, {0, 5, 4, 5})});
}

TEST(Conv, PassesNanOn) {
  Tensor x = RandomTensor(DType::kF32, {1, 1, 5, 5}, 1);
  x.data<float>()[12] = NAN;
  const Tensor weight = RandomTensor(DType::kF32, {2, 1, 3, 3}, 2);
  OperatorCase("nn.Conv2d")
      .Param("padding", "(1,1)")
      .Attribute("weight", weight)
      .Input(x)
      .ExpectOutputs({Expected2d(x, weight, {.before = {0, 1, 1}, .after = {0, 1, 1}})});
}

OperatorCase Small() {
  OperatorCase operator_case("nn.Conv2d");
  operator_case.Attribute("weight", RandomTensor(DType::kF32, {4, 2, 3, 3}))
      .Input(RandomTensor(DType::kF32, {1, 2, 5, 5}));
  return operator_case;
}

TEST(Conv, RefusesBadParameters) {
  Small().Param("stride", "(0,1)").ExpectError(ErrorCode::kInvalidModel, "at least 1");
  Small().Param("stride", "(-1,1)").ExpectError(ErrorCode::kInvalidModel, "at least 1");
  Small().Param("dilation", "(1,0)").ExpectError(ErrorCode::kInvalidModel, "at least 1");
  Small().Param("groups", "0").ExpectError(ErrorCode::kInvalidModel, "at least 1");
  Small().Param("padding", "(-1,0)").ExpectError(ErrorCode::kInvalidModel, "at least 0");
  Small().Param("padding", "full").ExpectError(ErrorCode::kInvalidModel, "same, valid");
  Small().Param("padding_mode", "mirror").ExpectError(ErrorCode::kInvalidModel, "one of");
  Small().Param("stride", "(1,2,3)").ExpectError(ErrorCode::kInvalidModel, "expected 2");
  Small().Param("groups", "3").ExpectError(ErrorCode::kInvalidArgument, "divide into 3 groups");
  Small()
      .Param("groups", "2")
      .ExpectError(ErrorCode::kInvalidArgument, "expected 4 input channels");
  Small()
      .Param("padding", "same")
      .Param("stride", "(2,2)")
      .ExpectError(ErrorCode::kInvalidArgument, "needs stride 1");
  Small().Param("surprise", "1").ExpectError(ErrorCode::kUnsupported, "surprise");
}

TEST(Conv, RefusesParametersThatContradictTheWeight) {
  Small().Param("in_channels", "3").ExpectError(ErrorCode::kInvalidModel, "in_channels=3");
  Small().Param("out_channels", "5").ExpectError(ErrorCode::kInvalidModel, "out_channels=5");
  Small().Param("kernel_size", "(3,5)").ExpectError(ErrorCode::kInvalidModel, "which has (3,3)");
  Small().Param("bias", "True").ExpectError(ErrorCode::kInvalidModel, "no attribute '@bias'");
  Small()
      .Param("bias", "False")
      .Attribute("bias", RandomTensor(DType::kF32, {4}))
      .ExpectError(ErrorCode::kInvalidModel, "an attribute '@bias'");
}

TEST(Conv, RefusesAbsurdSizes) {
  Small()
      .Param("dilation", "(2147483647,1)")
      .ExpectError(ErrorCode::kInvalidArgument, "expected a padded input of at least 4294967295");
  for (const char* name : {"stride", "padding", "dilation"}) {
    for (const char* value : {"9223372036854775807", "2147483648"}) {
      Small()
          .Param(name, "(" + std::string(value) + ",1)")
          .ExpectError(ErrorCode::kInvalidArgument, std::string(name) + " " + value + " is not in");
    }
  }
  Small()
      .Param("padding", "(2147483647,2147483647)")
      .ExpectError(ErrorCode::kInvalidArgument, "overflow");
}

TEST(Conv, TakesAStrideFarOverTheImage) {
  const Tensor x = RandomTensor(DType::kF32, {1, 2, 3, 3});
  const Tensor w = RandomTensor(DType::kF32, {1, 2, 1, 1});
  Tensor y(DType::kF32, {1, 1, 1, 1});
  y.data<float>()[0] =
      x.data<float>()[0] * w.data<float>()[0] + x.data<float>()[9] * w.data<float>()[1];
  OperatorCase("nn.Conv2d")
      .Attribute("weight", w)
      .Param("stride", "2147483647")
      .Param("dilation", "2147483647")
      .Input(x)
      .ExpectOutputs({y});
}

TEST(Conv, RefusesBadInputs) {
  const Tensor weight = RandomTensor(DType::kF32, {4, 2, 3, 3});
  const auto conv = [&](Shape input, DType dtype = DType::kF32) {
    return OperatorCase("nn.Conv2d").Attribute("weight", weight).Input(RandomTensor(dtype, input));
  };
  conv({5, 5}).ExpectError(ErrorCode::kInvalidArgument, "rank 3 or 4");
  conv({1, 1, 2, 5, 5}).ExpectError(ErrorCode::kInvalidArgument, "rank 3 or 4");
  conv({1, 3, 5, 5}).ExpectError(ErrorCode::kInvalidArgument, "expected 2 input channels");
  conv({1, 2, 2, 5}).ExpectError(ErrorCode::kInvalidArgument, "at least 3");
  conv({1, 2, 5, 5}, DType::kI64).ExpectError(ErrorCode::kInvalidArgument, "i64");
  OperatorCase("nn.Conv2d")
      .Input(RandomTensor(DType::kF32, {1, 2, 5, 5}))
      .ExpectError(ErrorCode::kInvalidModel, "weight");
  OperatorCase("nn.Conv2d")
      .Attribute("weight", RandomTensor(DType::kF32, {4, 2, 3}))
      .Input(RandomTensor(DType::kF32, {1, 2, 5, 5}))
      .ExpectError(ErrorCode::kInvalidArgument, "weight of rank 4");
  OperatorCase("nn.Conv2d")
      .Attribute("weight", Tensor(DType::kF32, {4, 2, 0, 3}))
      .Input(RandomTensor(DType::kF32, {1, 2, 5, 5}))
      .ExpectError(ErrorCode::kInvalidArgument, "kernel of at least 1");
  OperatorCase("nn.Conv2d")
      .Attribute("weight", weight)
      .Attribute("bias", RandomTensor(DType::kF32, {3}))
      .Input(RandomTensor(DType::kF32, {1, 2, 5, 5}))
      .ExpectError(ErrorCode::kInvalidArgument, "'bias' of shape (4)");
  OperatorCase("F.conv2d")
      .Input(RandomTensor(DType::kF32, {1, 2, 5, 5}), "input")
      .Input(RandomTensor(DType::kF64, {4, 2, 3, 3}), "weight")
      .ExpectError(ErrorCode::kInvalidArgument, "one dtype, f32, got dtype f64");
  OperatorCase("nn.Conv2d")
      .Attribute("weight", weight)
      .Input(RandomTensor(DType::kF64, {1, 2, 5, 5}))
      .ExpectError(ErrorCode::kInvalidArgument, "f64");
  OperatorCase("nn.Conv2d")
      .Attribute("weight", weight.To(DType::kF64))
      .Input(RandomTensor(DType::kF16, {1, 2, 5, 5}))
      .ExpectError(ErrorCode::kInvalidArgument, "f64, as the weights are, got dtype f16");
}

}  // namespace
}  // namespace oort::testing
