// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "cpu/gemm_precision.h"
#include "layers/convolution/winograd/winograd.h"
#include "oort/testing.h"

namespace oort::testing {
namespace {

struct WinogradCase {
  int64_t batch, height, width, channels, out_channels;
  int64_t top = 1, left = 1, bottom = 1, right = 1;
  bool add = false;
  Activation activation = Activation::kNone;
  int threads = 1;
  int64_t stride = 1;
  int64_t out_height() const { return (height + top + bottom - 3) / stride + 1; }
  int64_t out_width() const { return (width + left + right - 3) / stride + 1; }
  WinogradSize size() const { return {batch, out_height(), out_width(), channels, out_channels}; }
};

constexpr int64_t kGap = 3;  // floats between pixels that no call may read or write
constexpr float kMark = 12345.0f;

/// A case with its numbers, the plain sum in f64 and the largest sum of magnitudes.
struct WinogradData {
  WinogradCase c;
  Tensor input, weight, bias, add;
  std::vector<double> expected;
  double magnitude = 0;

  explicit WinogradData(const WinogradCase& which) : c(which) {
    input = RandomTensor(DType::kF32, {c.batch, c.height, c.width, c.channels + kGap}, 1);
    weight = RandomTensor(DType::kF32, {c.out_channels, c.channels, 3, 3}, 2);
    bias = RandomTensor(DType::kF32, {c.out_channels}, 3);
    add = RandomTensor(DType::kF32, {c.batch, c.out_height(), c.out_width(), c.out_channels + kGap},
                       4);
    for (int64_t n = 0; n < c.batch; ++n) {
      for (int64_t y = 0; y < c.out_height(); ++y) {
        for (int64_t x = 0; x < c.out_width(); ++x) {
          for (int64_t o = 0; o < c.out_channels; ++o) AddPixel(n, y, x, o);
        }
      }
    }
  }

  int64_t Pixel(int64_t n, int64_t y, int64_t x) const {
    return (n * c.out_height() + y) * c.out_width() + x;
  }

  std::vector<float> Run(Isa isa, WinogradVariant variant,
                         const GemmKernels* rounding = nullptr) const {
    const WinogradConv conv(isa, weight, bias, variant, rounding);
    const int64_t pixels = c.batch * c.out_height() * c.out_width();
    std::vector<float> output(static_cast<size_t>(pixels * (c.out_channels + kGap)), kMark);
    const auto workspace = AllocateHost(conv.Workspace(c.size(), c.threads));
    WinogradCall call;
    call.input = input.data<float>();
    call.batch = c.batch;
    call.height = c.height;
    call.width = c.width;
    call.input_stride = c.channels + kGap;
    call.pad_top = c.top;
    call.pad_left = c.left;
    call.output = output.data();
    call.out_height = c.out_height();
    call.out_width = c.out_width();
    call.output_stride = call.add_stride = c.out_channels + kGap;
    if (c.add) call.add = add.data<float>();
    call.activation = {c.activation, -0.25f, 0.5f};
    conv.Run(call, c.threads, reinterpret_cast<float*>(workspace->data()));
    return output;
  }

 private:
  void AddPixel(int64_t n, int64_t out_y, int64_t out_x, int64_t o) {
    const int64_t y = out_y * c.stride, x = out_x * c.stride;
    double sum = static_cast<double>(bias.data<float>()[o]), sizes = std::abs(sum);
    for (int64_t i = std::max<int64_t>(0, c.top - y);
         i < std::min<int64_t>(3, c.height + c.top - y); ++i) {
      for (int64_t j = std::max<int64_t>(0, c.left - x);
           j < std::min<int64_t>(3, c.width + c.left - x); ++j) {
        const int64_t pixel = (n * c.height + y + i - c.top) * c.width + x + j - c.left;
        for (int64_t k = 0; k < c.channels; ++k) {
          const double product =
              static_cast<double>(input.data<float>()[pixel * (c.channels + kGap) + k]) *
              static_cast<double>(weight.data<float>()[((o * c.channels + k) * 3 + i) * 3 + j]);
          sum += product;
          sizes += std::abs(product);
        }
      }
    }
    if (c.add) {
      sum += static_cast<double>(
          add.data<float>()[Pixel(n, out_y, out_x) * (c.out_channels + kGap) + o]);
    }
    if (c.activation == Activation::kRelu) sum = std::max(sum, 0.0);
    if (c.activation == Activation::kClamp) sum = std::clamp(sum, -0.25, 0.5);
    if (c.activation == Activation::kSigmoid) sum = 1 / (1 + std::exp(-sum));
    magnitude = std::max(magnitude, sizes);
    expected.push_back(sum);
  }
};

constexpr WinogradVariant kVariants[] = {WinogradVariant::kF2, WinogradVariant::kF4,
                                         WinogradVariant::kF6};

/// The bounds that winograd.h states.
double BoundOf(WinogradVariant variant) {
  if (variant == WinogradVariant::kStride2) return 5e-7;
  return variant == WinogradVariant::kF2 ? 5e-7 : variant == WinogradVariant::kF4 ? 2e-6 : 1e-5;
}

/// Each of `output` within `bound` of the plain sum, and nothing written behind pixels.
void ExpectNear(const WinogradData& data, const std::vector<float>& output, double bound) {
  const WinogradCase& c = data.c;
  double worst = 0;
  size_t at = 0;
  for (size_t i = 0; i < output.size(); ++i) {
    if (static_cast<int64_t>(i) % (c.out_channels + kGap) >= c.out_channels) {
      ASSERT_EQ(output[i], kMark) << "behind a pixel";
      continue;
    }
    const double difference = std::abs(static_cast<double>(output[i]) - data.expected[at++]);
    worst = std::isnan(difference) ? difference : std::max(worst, difference);
    ASSERT_FALSE(std::isnan(worst));
  }
  EXPECT_LE(worst, bound * std::max(1.0, data.magnitude));
}

/// Factors that are rounded to bf16: half a unit of 2^-8 each, and the transforms add up to four of
/// an image and of a filter.
void ExpectRounded(const WinogradData& data) {
  for (const GemmVariant& variant : GemmVariants(Precision::kBF16)) {
    if (variant.kernels->pack_rows == nullptr || variant.kernels->begin != nullptr) continue;
    SCOPED_TRACE(variant.name);
    ExpectNear(data, data.Run(variant.isa, WinogradVariant::kF2, variant.kernels), 0.012);
  }
}

void ExpectWinograd(const WinogradCase& c) {
  const WinogradData data(c);
  ExpectRounded(data);
  for (const Isa isa : SupportedIsas()) {
    for (const WinogradVariant variant : kVariants) {
      SCOPED_TRACE(::testing::Message()
                   << Name(isa) << " F" << WinogradTile(variant) << " of " << c.batch << "x"
                   << c.height << "x" << c.width << "x" << c.channels << " to " << c.out_channels
                   << " on " << c.threads << " threads");
      ExpectNear(data, data.Run(isa, variant), BoundOf(variant));
    }
  }
  WinogradCase strided = c;
  strided.stride = 2;
  const WinogradData other(strided);
  for (const Isa isa : SupportedIsas()) {
    SCOPED_TRACE(std::string(Name(isa)) + ", stride 2");
    ExpectNear(other, other.Run(isa, WinogradVariant::kStride2),
               BoundOf(WinogradVariant::kStride2));
  }
}

TEST(Winograd, AnswersAsThePlainSum) {
  int64_t channels = 1, out_channels = 70;
  for (int64_t height = 1; height <= 15; ++height) {
    const int64_t width = (height * 7) % 15 + 1;
    ExpectWinograd({1, height, width, channels, out_channels});
    channels = channels * 5 % 71;
    out_channels = out_channels * 3 % 71;
  }
}

TEST(Winograd, PadsEachSideAsItIsTold) {
  for (int64_t pads = 0; pads < 81; pads += 4) {
    WinogradCase c = {1, 5, 7, 6, 5};
    c.top = pads % 3;
    c.left = pads / 3 % 3;
    c.bottom = pads / 9 % 3;
    c.right = pads / 27 % 3;
    ExpectWinograd(c);
  }
}

TEST(Winograd, AddsAndActivates) {
  for (const Activation activation :
       {Activation::kNone, Activation::kRelu, Activation::kClamp, Activation::kSigmoid}) {
    for (const bool add : {false, true}) {
      WinogradCase c = {2, 9, 13, 20, 37};
      c.add = add;
      c.activation = activation;
      ExpectWinograd(c);
    }
  }
}

TEST(Winograd, SharesTheWorkAmongThreads) {
  for (const int threads : {2, 3, 5, 16}) {
    for (const WinogradCase& size :
         {WinogradCase{1, 7, 7, 40, 130}, WinogradCase{1, 40, 33, 8, 20},
          WinogradCase{3, 14, 14, 16, 64}, WinogradCase{1, 2, 2, 3, 3}}) {
      WinogradCase c = size;
      c.threads = threads;
      ExpectWinograd(c);
    }
  }
}

TEST(Winograd, GivesTheSameOnAnyNumberOfThreads) {
  WinogradCase c = {1, 30, 31, 24, 48};
  const std::vector<float> one = WinogradData(c).Run(DefaultIsa(), WinogradVariant::kF4);
  c.threads = 7;
  EXPECT_EQ(one, WinogradData(c).Run(DefaultIsa(), WinogradVariant::kF4));
}

TEST(Winograd, DoesNothingForAnEmptyBatch) {
  const WinogradData data({0, 6, 6, 8, 8});
  EXPECT_TRUE(data.Run(DefaultIsa(), WinogradVariant::kF4).empty());
}

TEST(Winograd, IsChosenWhereItPays) {
  const auto choose = [](int64_t extent, int64_t channels, int64_t out_channels) {
    return WinogradConv::Choose({1, extent, extent, channels, out_channels}, DefaultIsa());
  };
  EXPECT_EQ(choose(28, 128, 128), WinogradVariant::kF4);
  if (DefaultIsa() == Isa::kNeon) {  // elsewhere the tiles that 14 pixels waste may cost more
    EXPECT_EQ(choose(14, 256, 256), WinogradVariant::kF4);
  }
  EXPECT_EQ(choose(112, 3, 8), std::nullopt) << "the transforms cost more than the products";
  EXPECT_EQ(choose(1, 512, 512), std::nullopt) << "the weights grow";
  EXPECT_EQ(WinogradConv::Choose({0, 8, 8, 64, 64}, DefaultIsa()), std::nullopt);
}

TEST(Winograd, IsChosenAtStride2OnNeon) {
  const auto choose = [](int64_t extent, int64_t channels, int64_t out_channels) {
    return WinogradConv::Choose({1, extent, extent, channels, out_channels, 2}, DefaultIsa());
  };
  const bool neon = DefaultIsa() == Isa::kNeon;
  EXPECT_EQ(choose(28, 128, 128), neon ? std::optional(WinogradVariant::kStride2) : std::nullopt);
  EXPECT_EQ(choose(7, 512, 512), std::nullopt) << "weights grow";
  EXPECT_EQ(choose(112, 3, 32), std::nullopt) << "transforms";
}

TEST(Winograd, KeepsWhatIsNotFiniteInItsTiles) {
  for (const WinogradVariant variant : kVariants) {
    WinogradData data({1, 30, 30, 5, 6});
    const std::vector<float> before = data.Run(DefaultIsa(), variant);
    const int64_t y = 14, x = 15, stride = 5 + kGap, reach = WinogradTile(variant) + 1;
    data.input.data<float>()[(y * 30 + x) * stride + 2] = std::numeric_limits<float>::infinity();
    const std::vector<float> after = data.Run(DefaultIsa(), variant);
    for (int64_t i = 0; i < 30 * 30; ++i) {
      const bool near = std::abs(i / 30 - y) <= reach && std::abs(i % 30 - x) <= reach;
      const bool seen = std::abs(i / 30 - y) <= 1 && std::abs(i % 30 - x) <= 1;
      for (int64_t o = 0; o < 6; ++o) {
        const auto at = static_cast<size_t>(i * (6 + kGap) + o);
        if (seen) {
          EXPECT_FALSE(std::isfinite(after[at]));
        } else if (!near) {
          EXPECT_EQ(before[at], after[at]);
        }
      }
    }
  }
}

}  // namespace
}  // namespace oort::testing
