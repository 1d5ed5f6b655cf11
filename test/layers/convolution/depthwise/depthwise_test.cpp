// SPDX-License-Identifier: MIT
#include <cmath>
#include <limits>

#include "layers/convolution/conv_reference.h"
#include "layers/convolution/depthwise/depthwise.h"
#include "layers/layout/nhwc_reference.h"

namespace oort::testing {
namespace {

struct DepthwiseCase {
  int64_t batch, channels, height, width, kernel_h, kernel_w, stride, pad, dilation;
};

ConvGeometry DepthwiseGeometry(const DepthwiseCase& c) {
  const ConvParams params({c.stride, c.stride}, {c.pad, c.pad}, {c.dilation, c.dilation},
                          c.channels);
  return params.Geometry({c.batch, c.channels, c.height, c.width},
                         {c.channels, 1, c.kernel_h, c.kernel_w});
}

/// Copies images into ones whose pixels are `pixel` floats apart, with NaN in between.
Tensor Spread(const Tensor& images, int64_t pixel) {
  const int64_t channels = images.dim(-1),
                count = images.elements() / std::max<int64_t>(1, channels);
  Tensor wide(DType::kF32, {count, pixel});
  std::fill_n(wide.data<float>(), wide.elements(), NAN);
  for (int64_t i = 0; i < count; ++i) {
    std::copy_n(images.data<float>() + i * channels, channels, wide.data<float>() + i * pixel);
  }
  return wide;
}

/// In f64, in torch's layout.
Tensor ExpectedDepthwise(const DepthwiseCase& c, const Tensor& x, const Tensor& weight,
                         const Tensor& bias) {
  ConvSpec spec;
  spec.stride = {1, c.stride, c.stride};
  spec.dilation = {1, c.dilation, c.dilation};
  spec.before = spec.after = {0, c.pad, c.pad};
  spec.groups = c.channels;
  return FromVolume(ReferenceConv(ToVolume(x, 2), ToVolume(weight, 2), bias, spec), 2);
}

struct DepthwiseExtras {
  bool bias = true, addend = false;
  ActivationSpec activation{};
  int64_t gap = 0;  ///< floats between pixels
};

void ExpectDepthwise(const DepthwiseCase& c, const DepthwiseExtras& extras) {
  SCOPED_TRACE(::testing::Message()
               << c.batch << "x" << c.channels << "x" << c.height << "x" << c.width << " kernel "
               << c.kernel_h << "x" << c.kernel_w << " stride " << c.stride << " pad " << c.pad
               << " dilation " << c.dilation << " gap " << extras.gap);
  const Tensor x = RandomTensor(DType::kF32, {c.batch, c.channels, c.height, c.width}, 1);
  const Tensor weight = RandomTensor(DType::kF32, {c.channels, 1, c.kernel_h, c.kernel_w}, 2);
  const Tensor bias = RandomTensor(DType::kF32, {c.channels}, 3);
  Tensor expected = WithNhwc(ExpectedDepthwise(c, x, weight, extras.bias ? bias : Tensor()));
  const ConvGeometry geometry = DepthwiseGeometry(c);
  const Tensor addend = RandomTensor(DType::kF32, expected.shape(), 4);
  float* want = expected.data<float>();
  for (int64_t i = 0; i < expected.elements(); ++i) {
    if (extras.addend) want[i] += addend.data<float>()[i];
    const Activation kind = extras.activation.kind;
    if (kind == Activation::kRelu) want[i] = std::max(want[i], 0.0f);
    if (kind == Activation::kClamp) {
      want[i] = std::clamp(want[i], extras.activation.a, extras.activation.b);
    }
    if (kind == Activation::kSilu) want[i] /= 1 + std::exp(-want[i]);
  }
  const int64_t pixel = c.channels + extras.gap;
  const Tensor in = Spread(WithNhwc(x), pixel), add = Spread(addend, pixel);
  for (Isa isa : SupportedIsas()) {
    for (int threads : {1, 2}) {
      SCOPED_TRACE(Name(isa));
      Tensor out = Spread(Tensor::Zeros(DType::kF32, expected.shape()), pixel);
      DepthwiseConv::Operands operands;
      operands.in = in.data<float>();
      operands.in_pixel = operands.out_pixel = pixel;
      if (extras.bias) operands.bias = bias.data<float>();
      if (extras.addend) operands.addend = add.data<float>();
      operands.activation = extras.activation;
      operands.out = out.data<float>();
      DepthwiseConv(isa, weight).Run(Context(threads, {}), geometry, operands);
      ExpectNear(out, Spread(expected, pixel), {1e-5, 1e-5});
    }
  }
}

TEST(NhwcDepthwise, TakesAllKernelsAndStrides) {
  for (int64_t kernel : {1, 2, 3, 4, 5, 7}) {
    for (int64_t stride : {1, 2, 3}) {
      ExpectDepthwise({1, 20, 9, 15, kernel, kernel, stride, kernel / 2, 1}, {});
      ExpectDepthwise({2, 7, 8, 13, kernel, kernel, stride, 0, 1}, {});
    }
  }
}

TEST(NhwcDepthwise, TakesAllWidths) {
  for (int64_t width = 1; width <= 34; ++width) {
    for (int64_t kernel : {3, 5}) {
      for (int64_t stride : {1, 2}) {
        ExpectDepthwise({1, 8, 3, width, kernel, kernel, stride, kernel / 2, 1}, {});
      }
    }
  }
}

TEST(NhwcDepthwise, TakesAllChannels) {
  for (int64_t channels = 1; channels <= 70; ++channels) {
    ExpectDepthwise({channels % 4, channels, 4, 9, 3, 3, 1 + channels % 2, 1, 1}, {});
  }
}

TEST(NhwcDepthwise, TakesDilationWidePaddingAndOtherShapes) {
  ExpectDepthwise({1, 12, 11, 10, 3, 3, 1, 2, 2}, {});
  ExpectDepthwise({1, 12, 5, 6, 3, 3, 2, 4, 4}, {});
  ExpectDepthwise({1, 6, 4, 4, 3, 3, 1, 5, 1}, {});
  ExpectDepthwise({1, 6, 1, 1, 5, 5, 1, 2, 1}, {});
  ExpectDepthwise({1, 17, 7, 9, 1, 7, 1, 3, 1}, {});
  ExpectDepthwise({1, 17, 9, 7, 5, 3, 2, 2, 1}, {});
  ExpectDepthwise({1, 40, 30, 120, 3, 3, 1, 1, 1}, {});
}

TEST(NhwcDepthwise, EndsWithBiasAddendAndActivation) {
  const ActivationSpec relu{Activation::kRelu, 0, 0}, relu6{Activation::kClamp, 0, 6};
  const ActivationSpec silu{Activation::kSilu, 0, 0};
  for (int64_t channels : {16, 19}) {
    for (int64_t kernel : {3, 4}) {
      const DepthwiseCase c{2, channels, 6, 13, kernel, kernel, 1, 1, 1};
      ExpectDepthwise(c, {.bias = false});
      ExpectDepthwise(c, {.bias = false, .addend = true, .gap = 5});
      ExpectDepthwise(c, {.activation = relu});
      ExpectDepthwise(c, {.addend = true, .activation = relu6, .gap = 3});
      ExpectDepthwise(c, {.activation = silu});
      ExpectDepthwise(c, {.addend = true, .activation = silu, .gap = 16});
    }
  }
}

/// Widths and padding for which two rows are done at once, with the borders at either side.
TEST(NhwcDepthwise, TakesRowsInPairs) {
  const ActivationSpec relu6{Activation::kClamp, 0, 6};
  for (int64_t kernel : {3, 5}) {
    for (int64_t stride : {1, 2}) {
      for (int64_t width : {7, 8, 14, 16, 21, 24}) {
        const int64_t in = width * stride;
        ExpectDepthwise({1, 21, 7, in, kernel, kernel, stride, kernel / 2, 1},
                        {.addend = true, .activation = relu6, .gap = 3});
        ExpectDepthwise({1, 8, 4, in - stride + 1, kernel, kernel, stride, kernel / 2, 1}, {});
      }
    }
  }
}

TEST(NhwcDepthwise, PassesNanOn) {
  Tensor x = RandomTensor(DType::kF32, {1, 5, 5, 4});  // NHWC
  x.data<float>()[(2 * 5 + 2) * 4 + 1] = NAN;
  const Tensor weight = RandomTensor(DType::kF32, {4, 1, 3, 3});
  for (Isa isa : SupportedIsas()) {
    Tensor out(DType::kF32, {1, 5, 5, 4});
    DepthwiseConv::Operands operands;
    operands.in = x.data<float>();
    operands.out = out.data<float>();
    operands.in_pixel = operands.out_pixel = 4;
    operands.activation = {Activation::kClamp, 0, 6};
    DepthwiseConv(isa, weight)
        .Run(Context(1, {}), DepthwiseGeometry({1, 4, 5, 5, 3, 3, 1, 1, 1}), operands);
    for (int64_t i = 0; i < out.elements(); ++i) {
      const int64_t pixel = i / 4, y = pixel / 5, col = pixel % 5;
      const bool near = std::abs(y - 2) <= 1 && std::abs(col - 2) <= 1;
      EXPECT_EQ(std::isnan(out.data<float>()[i]), near && i % 4 == 1) << i;
    }
  }
}

}  // namespace
}  // namespace oort::testing
