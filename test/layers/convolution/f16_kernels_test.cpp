// SPDX-License-Identifier: MIT
// Kernels that compute in f16, beside sums in f64 of the same rounded factors.
#include <cmath>
#include <span>

#include "conv_reference.h"
#include "cpu/activation.h"
#include "cpu/lanes_kernels.h"
#include "cpu/tiles_f16.h"
#include "kit/sanitized.h"
#include "layers/convolution/direct/direct_conv.h"
#include "layers/convolution/winograd/winograd.h"
#include "layers/layout/nhwc_reference.h"

namespace oort::testing {
namespace {

constexpr double kUnit = 1.0 / 2048;  // half a unit in the last place, relative

struct HalfConvCase {
  int64_t channels, filters, size, kernel = 1, stride = 1, groups = 1, batch = 1;
  std::string activation = "none";
  bool addend = false;
};

Tensor Rounded(const Tensor& tensor) { return tensor.To(DType::kF16).To(DType::kF32); }

double Activated(double x, const std::string& name) {
  if (name == "relu") return std::max(x, 0.0);
  if (name == "clamp") return std::clamp(x, -0.5, 1.5);
  if (name == "hardswish") return x * std::clamp(x / 6 + 0.5, 0.0, 1.0);
  if (name == "hardsigmoid") return std::clamp(x / 6 + 0.5, 0.0, 1.0);
  if (name == "silu") return x / (1 + std::exp(-x));
  if (name == "sigmoid") return 1 / (1 + std::exp(-x));
  return x;
}

/// Memory as a layer gets it: aligned to a line of the cache.
Tensor Scratch(size_t bytes) { return Tensor(DType::kU8, {static_cast<int64_t>(bytes) + 64}); }
std::span<std::byte> Aligned(Tensor& scratch) {
  const size_t skip = (64 - reinterpret_cast<uintptr_t>(scratch.raw()) % 64) % 64;
  return {reinterpret_cast<std::byte*>(scratch.raw()) + skip,
          static_cast<size_t>(scratch.elements()) - skip};
}

struct HalfConvOperands {
  Tensor x, weight, bias, addend;  // as torch has them; the addend undefined or with channels last
  ConvGeometry geometry;
  ActivationSpec activation;
};

/// By vectors, which a layer leaves to tiles where the processor has them.
Tensor ConvolvedByVectors(const HalfConvOperands& o, Isa isa, int threads) {
  const Tensor image = WithNhwc(o.x).To(DType::kF16);
  Tensor out =
      Tensor::Zeros(DType::kF16, WithNhwc(Tensor::Zeros(DType::kF32, o.geometry.output)).shape());
  const DirectConvOf<Half> conv(isa, o.weight, o.bias, o.geometry.groups);
  Tensor scratch = Scratch(conv.Workspace(o.geometry, threads));
  DirectConvOf<Half>::Operands operands;
  operands.in = image.data<Half>();
  operands.in_pixel = o.geometry.in_channels;
  operands.addend = o.addend.defined() ? o.addend.data<Half>() : nullptr;
  operands.activation = o.activation;
  operands.out = out.data<Half>();
  operands.out_pixel = o.geometry.out_channels;
  conv.Run(Context(threads, Aligned(scratch)), o.geometry, operands);
  return out;
}

Tensor ConvolvedByWinograd(const HalfConvOperands& o, WinogradVariant variant, Isa isa,
                           int threads) {
  const Tensor image = WithNhwc(o.x).To(DType::kF16);
  Tensor out =
      Tensor::Zeros(DType::kF16, WithNhwc(Tensor::Zeros(DType::kF32, o.geometry.output)).shape());
  const WinogradConvOf<Half> conv(isa, o.weight, o.bias, variant);
  const ConvAxis &h = o.geometry.axes[1], &w = o.geometry.axes[2];
  Tensor scratch = Scratch(conv.Workspace(
      {o.geometry.batch, h.out, w.out, o.geometry.in_channels, o.geometry.out_channels}, threads));
  WinogradCallOf<Half> call;
  call.input = image.data<Half>();
  call.batch = o.geometry.batch;
  call.height = h.in;
  call.width = w.in;
  call.input_stride = o.geometry.in_channels;
  call.pad_top = call.pad_left = 1;
  call.output = out.data<Half>();
  call.out_height = h.out;
  call.out_width = w.out;
  call.output_stride = call.add_stride = o.geometry.out_channels;
  call.add = o.addend.defined() ? o.addend.data<Half>() : nullptr;
  call.activation = o.activation;
  conv.Run(call, threads, Aligned(scratch).data());
  return out;
}

/// What layers do not take here, because there is something faster.
void ExpectOtherKernels(const HalfConvCase& c, const HalfConvOperands& o, const Tensor& expected,
                        Tolerance tolerance) {
  const Isa isa = DefaultIsa();
  if (FindTileKernelsF16(isa) == nullptr || (c.groups == c.channels && c.groups > 1)) return;
  for (const int threads : {1, 2}) {
    SCOPED_TRACE(::testing::Message() << "by vectors, " << threads << " threads");
    ExpectNear(ConvolvedByVectors(o, isa, threads), expected, tolerance);
    if (c.kernel != 3 || c.stride != 1 || c.groups != 1 || c.channels < 16) continue;
    for (const auto variant : {WinogradVariant::kF2, WinogradVariant::kF4}) {
      SCOPED_TRACE(::testing::Message() << "Winograd's " << static_cast<int>(variant));
      ExpectNear(ConvolvedByWinograd(o, variant, isa, threads), expected, tolerance);
    }
  }
}

void ExpectHalfConv(const HalfConvCase& c) {
  SCOPED_TRACE(::testing::Message()
               << c.channels << " to " << c.filters << " channels, " << c.size << "x" << c.size
               << ", kernel " << c.kernel << " stride " << c.stride << " groups " << c.groups
               << " batch " << c.batch << " " << c.activation);
  const int64_t in = c.channels / c.groups, terms = in * c.kernel * c.kernel, pad = c.kernel / 2;
  const double scale = 1 / std::sqrt(static_cast<double>(terms));
  const Tensor x =
      Rounded(RandomTensor(DType::kF32, {c.batch, c.channels, c.size, c.size + 1}, 1, -1, 1));
  const Tensor weight = Rounded(
      RandomTensor(DType::kF32, {c.filters, in, c.kernel, c.kernel}, 2, -2 * scale, 2 * scale));
  const Tensor bias = Rounded(RandomTensor(DType::kF32, {c.filters}, 3, -1, 1));
  ConvSpec spec;
  spec.stride = {1, c.stride, c.stride};
  spec.before = spec.after = {0, pad, pad};
  spec.groups = c.groups;
  Tensor expected =
      WithNhwc(FromVolume(ReferenceConv(ToVolume(x, 2), ToVolume(weight, 2), bias, spec), 2)
                   .To(DType::kF32));
  const Tensor addend = Rounded(RandomTensor(DType::kF32, expected.shape(), 4, -1, 1));
  for (int64_t i = 0; i < expected.elements(); ++i) {
    float& y = expected.data<float>()[i];
    if (c.addend) y += addend.data<float>()[i];
    y = static_cast<float>(Activated(y, c.activation));
  }
  const std::string k = std::to_string(c.kernel), s = std::to_string(c.stride),
                    p = std::to_string(pad);
  OperatorCase made("nhwc.Conv2d");
  made.Param("precision", "f16").Param("padding", "(" + p + "," + p + ")");
  made.Param("stride", "(" + s + "," + s + ")").Param("groups", std::to_string(c.groups));
  made.Param("activation", c.activation).Param("activation_a", "-0.5");
  made.Param("activation_b", "1.5");
  made.Attribute("weight", weight).Attribute("bias", bias);
  made.Input(WithNhwc(x).To(DType::kF16), "input");
  if (c.addend) made.Input(addend.To(DType::kF16), "addend");
  // Sums of some hundred terms in f16, of which each rounds; Winograd's transforms are up to ten
  // times as large as what they stand for.
  const double tolerance = kUnit *
                           (6 + std::sqrt(static_cast<double>(std::min<int64_t>(terms, 512)))) *
                           (c.kernel == 3 && c.stride == 1 && c.groups == 1 ? 4 : 1);
  made.ExpectOutputs({expected.To(DType::kF16)}, {tolerance, 4 * kUnit});
  HalfConvOperands operands{x, weight, bias, c.addend ? addend.To(DType::kF16) : Tensor(), {}, {}};
  operands.geometry = ConvParams({c.stride, c.stride}, {pad, pad}, {1, 1}, c.groups)
                          .Geometry(x.shape(), weight.shape());
  operands.activation = {*ActivationNamed(c.activation), -0.5f, 1.5f};
  ExpectOtherKernels(c, operands, expected.To(DType::kF16), {tolerance, 4 * kUnit});
}

TEST(F16Kernels, ConvolvesPixels) {
  for (const int64_t channels : {1, 3, 8, 13, 16, 40, 300, 520}) {
    for (const int64_t filters : {1, 8, 17, 24, 32, 58, 96}) {
      ExpectHalfConv({.channels = channels, .filters = filters, .size = 5});
    }
  }
  ExpectHalfConv({.channels = 24, .filters = 40, .size = 1});  // one row of a product
  ExpectHalfConv({.channels = 600, .filters = 1000, .size = 1});
  ExpectHalfConv({.channels = 16, .filters = 40, .size = 12, .stride = 2, .batch = 2});
}

TEST(F16Kernels, ConvolvesWindows) {
  for (const int64_t kernel : {3, 5, 7}) {
    for (const int64_t channels : {1, 3, 4, 9, 24, 65}) {
      for (const int64_t stride : {1, 2}) {
        ExpectHalfConv({.channels = channels,
                        .filters = 20,
                        .size = 11,
                        .kernel = kernel,
                        .stride = stride,
                        .batch = 1 + channels % 2});
      }
    }
  }
  ExpectHalfConv({.channels = 24, .filters = 36, .size = 8, .kernel = 3, .groups = 3});
}

TEST(F16Kernels, ConvolvesByWinogradsAlgorithm) {
  for (const int64_t channels : {32, 64, 300}) {
    for (const int64_t filters : {32, 72}) {
      for (const int64_t size : {7, 14, 29}) {
        if (channels > 64 && size > 7 && testing::TriesFewer()) continue;  // would take minutes
        ExpectHalfConv({.channels = channels,
                        .filters = filters,
                        .size = size,
                        .kernel = 3,
                        .activation = "relu",
                        .addend = filters == 32});
      }
    }
  }
}

TEST(F16Kernels, ConvolvesEachChannelByItself) {
  for (const int64_t channels : {3, 8, 16, 29, 72}) {
    for (const int64_t kernel : {3, 5, 7}) {
      for (const int64_t stride : {1, 2}) {
        for (const int64_t size : {5, 14, 16}) {
          ExpectHalfConv({.channels = channels,
                          .filters = channels,
                          .size = size,
                          .kernel = kernel,
                          .stride = stride,
                          .groups = channels,
                          .activation = stride == 1 ? "hardswish" : "none"});
        }
      }
    }
  }
}

TEST(F16Kernels, ConvolvesBlocksOfManyChannels) {
  for (const int64_t size : {14, 16, 20}) {
    ExpectHalfConv({.channels = 300, .filters = 300, .size = size, .kernel = 3, .groups = 300});
  }
}

TEST(F16Kernels, EndsWithAddendAndActivation) {
  for (const std::string activation :
       {"none", "relu", "clamp", "hardswish", "hardsigmoid", "silu", "sigmoid"}) {
    for (const bool addend : {false, true}) {
      for (const int64_t filters : {16, 37}) {
        ExpectHalfConv({.channels = 20,
                        .filters = filters,
                        .size = 7,
                        .activation = activation,
                        .addend = addend});
        ExpectHalfConv({.channels = filters,
                        .filters = filters,
                        .size = 7,
                        .kernel = 3,
                        .groups = filters,
                        .activation = activation,
                        .addend = addend});
      }
    }
  }
}

TEST(F16Kernels, InfinityStaysInItsWindows) {
  if (!HasF16Arithmetic(DefaultIsa())) GTEST_SKIP() << "no f16 arithmetic";
  for (const int64_t channels : {3, 16, 24, 32, 40}) {
    for (const int64_t kernel : {1, 3}) {
      // Winograd's algorithm, where there are no tiles, takes it to all that it transforms with it.
      if (kernel == 3 && FindTileKernelsF16(DefaultIsa()) == nullptr) continue;
      SCOPED_TRACE(::testing::Message() << channels << " channels, kernel " << kernel);
      const int64_t size = 9, filters = 20;
      const std::string pad = kernel == 3 ? "(1,1)" : "(0,0)";
      Tensor x = RandomTensor(DType::kF16, {1, size, size, channels}, 1, -1, 1);
      const auto run = [&] {
        return OperatorCase("nhwc.Conv2d")
            .Param("precision", "f16")
            .Param("padding", pad)
            .Attribute("weight",
                       RandomTensor(DType::kF32, {filters, channels, kernel, kernel}, 2, -0.1, 0.1))
            .Input(x, "input")
            .Run()[0];
      };
      const Tensor before = run();
      x = x.Clone();
      x.data<Half>()[(4 * size + 5) * channels + channels - 1] = Half(HUGE_VALF);
      const Tensor after = run();
      for (int64_t i = 0; i < after.elements(); ++i) {
        const int64_t row = i / filters / size, column = i / filters % size;
        const bool near = std::abs(row - 4) <= kernel / 2 && std::abs(column - 5) <= kernel / 2;
        const float got = static_cast<float>(after.data<Half>()[i]);
        if (near) {
          ASSERT_FALSE(std::isfinite(got)) << i;
        } else {
          const float expected = static_cast<float>(before.data<Half>()[i]);
          ASSERT_NEAR(got, expected, 0.02f * (1 + std::fabs(expected))) << i;
        }
      }
    }
  }
}

TEST(F16Kernels, MultipliesRows) {
  for (const int64_t rows : {1, 2, 6, 13}) {
    for (const int64_t in : {7, 64, 1030}) {
      for (const int64_t out : {5, 32, 77}) {
        SCOPED_TRACE(::testing::Message() << rows << "x" << in << " to " << out);
        const double scale = 2 / std::sqrt(static_cast<double>(in));
        const Tensor x = Rounded(RandomTensor(DType::kF32, {rows, in}, 1, -1, 1));
        const Tensor weight = Rounded(RandomTensor(DType::kF32, {out, in}, 2, -scale, scale));
        const Tensor bias = Rounded(RandomTensor(DType::kF32, {out}, 3, -1, 1));
        Tensor expected(DType::kF32, {rows, out});
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t o = 0; o < out; ++o) {
            double sum = bias.data<float>()[o];
            for (int64_t k = 0; k < in; ++k) {
              sum += double{x.data<float>()[r * in + k]} * weight.data<float>()[o * in + k];
            }
            expected.data<float>()[r * out + o] = static_cast<float>(std::max(sum, 0.0));
          }
        }
        OperatorCase("oort.Linear")
            .Param("precision", "f16")
            .Param("activation", "relu")
            .Attribute("weight", weight)
            .Attribute("bias", bias)
            .Input(x.To(DType::kF16), "input")
            .ExpectOutputs({expected.To(DType::kF16)}, {24 * kUnit, 4 * kUnit});
      }
    }
  }
}

TEST(F16Kernels, RefusesOtherDTypes) {
  if (!HasF16Arithmetic(DefaultIsa())) GTEST_SKIP() << "no f16 arithmetic";
  const OperatorCase conv = OperatorCase("nhwc.Conv2d")
                                .Param("precision", "f16")
                                .Attribute("weight", RandomTensor(DType::kF32, {8, 8, 1, 1}))
                                .Input(RandomTensor(DType::kF32, {1, 4, 4, 8}), "input");
  EXPECT_THROW(conv.Run(), Error);
  const OperatorCase linear = OperatorCase("nn.Linear")
                                  .Param("precision", "f16")
                                  .Attribute("weight", RandomTensor(DType::kF32, {8, 8}))
                                  .Input(RandomTensor(DType::kF32, {4, 8}), "input");
  EXPECT_THROW(linear.Run(), Error);
}

TEST(F16Kernels, PoolsAndMeansOfManyPixels) {
  // In f16 a sum of that many would be infinite, or stop growing.
  const Tensor image = RandomTensor(DType::kF16, {1, 60, 60, 19}, 1, 1, 63);
  std::vector<float> means(19), largest(19, 0.0f);
  const Tensor wide = image.To(DType::kF32);
  for (int64_t i = 0; i < wide.elements(); ++i) {
    const size_t c = static_cast<size_t>(i % 19);
    means[c] += wide.data<float>()[i] / 3600;
    largest[c] = std::max(largest[c], wide.data<float>()[i]);
  }
  OperatorCase("nhwc.AdaptiveAvgPool2d")
      .Param("output_size", "(1,1)")
      .Input(image)
      .ExpectOutputs({Tensor::From<float>(means, {1, 1, 1, 19}).To(DType::kF16)}, {0, 3 * kUnit});
  OperatorCase("nhwc.AdaptiveMaxPool2d")
      .Param("output_size", "(1,1)")
      .Input(image)
      .ExpectOutputs({Tensor::From<float>(largest, {1, 1, 1, 19}).To(DType::kF16)}, {0, 0});
}

TEST(F16Kernels, RoundsImagesThatEnter) {
  for (const int64_t channels : {1, 2, 3, 5}) {
    for (const int64_t size : {1, 3, 20}) {
      const Tensor image = RandomTensor(DType::kF32, {2, channels, size, size + 2});
      OperatorCase("nhwc.pack")
          .Param("dtype", "torch.half")
          .Param("channels", std::to_string(channels))
          .Input(image)
          .ExpectOutputs({WithNhwc(image).To(DType::kF16)}, {0, 0});
    }
  }
}

}  // namespace
}  // namespace oort::testing
