// SPDX-License-Identifier: MIT
// Convolutions of bytes: bit for bit what one sum after another gives, on every instruction set.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kit/sanitized.h"
#include "layers/layout/axes.h"
#include "layers/quantize/bit_exact.h"

namespace oort::testing {
namespace {

struct IntegerConvCase {
  int64_t batch, channels, height, width, outputs, kernel_height, kernel_width;
  int64_t stride = 1, padding = 0, dilation = 1, groups = 1;
  DType input = DType::kU8, result = DType::kU8;
  bool bias = true, addend = false, extremes = false;
  const char* activation = "none";
  double a = 0, b = 0;
  double scales = 1;
};

constexpr float kInputScale = 0.02f, kScale = 0.6f, kAddendScale = 0.05f;

int32_t ByteAt(const Tensor& bytes, int64_t at) {
  return bytes.dtype() == DType::kU8 ? bytes.data<uint8_t>()[at] : bytes.data<int8_t>()[at];
}

Tensor Bytes(DType dtype, const Shape& shape, uint64_t seed, bool extremes) {
  const double low = dtype == DType::kU8 ? 0 : -128, high = dtype == DType::kU8 ? 255 : 127;
  Tensor bytes = RandomTensor(dtype, shape, seed, low, high);
  if (!extremes) return bytes;
  for (int64_t i = 0; i < bytes.elements(); ++i) {
    const bool most = (i * 7 + static_cast<int64_t>(seed)) % 3 != 0;
    if (dtype == DType::kU8) {
      bytes.data<uint8_t>()[i] = most ? 255 : 0;
    } else {
      bytes.data<int8_t>()[i] = most ? 127 : -128;
    }
  }
  return bytes;
}

int32_t InputZero(const IntegerConvCase& c) { return c.input == DType::kU8 ? 117 : -9; }
int32_t OutputZero(const IntegerConvCase& c) { return c.result == DType::kU8 ? 131 : 4; }

Shape OutputShape(const IntegerConvCase& c) {
  const int64_t reach_y = c.dilation * (c.kernel_height - 1) + 1;
  const int64_t reach_x = c.dilation * (c.kernel_width - 1) + 1;
  return {c.batch, c.outputs, (c.height + 2 * c.padding - reach_y) / c.stride + 1,
          (c.width + 2 * c.padding - reach_x) / c.stride + 1};
}

/// What the operator's description says, in the order of the arrays of NCHW.
Tensor Reference(const IntegerConvCase& c, const Tensor& x, const Tensor& weight,
                 const Tensor& scales, const Tensor& bias, const Tensor& addend) {
  const int64_t in = c.channels / c.groups, out = c.outputs / c.groups;
  Tensor y(c.result, OutputShape(c));
  const int64_t rows = y.dim(2), columns = y.dim(3);
  const bool bytes = c.result != DType::kF32;
  const double unit = bytes ? static_cast<double>(kScale) : 1;
  for (int64_t at = 0; at < y.elements(); ++at) {
    const int64_t ox = at % columns, oy = at / columns % rows;
    const int64_t o = at / columns / rows % c.outputs, n = at / columns / rows / c.outputs;
    int64_t sum = 0;
    for (int64_t i = 0; i < in; ++i) {
      for (int64_t ky = 0; ky < c.kernel_height; ++ky) {
        for (int64_t kx = 0; kx < c.kernel_width; ++kx) {
          const int64_t iy = oy * c.stride - c.padding + ky * c.dilation;
          const int64_t ix = ox * c.stride - c.padding + kx * c.dilation;
          if (iy < 0 || iy >= c.height || ix < 0 || ix >= c.width) continue;
          const int64_t channel = o / out * in + i;
          const int64_t from = ((n * c.channels + channel) * c.height + iy) * c.width + ix;
          const int64_t w = ((o * in + i) * c.kernel_height + ky) * c.kernel_width + kx;
          sum += (ByteAt(x, from) - InputZero(c)) * ByteAt(weight, w);
        }
      }
    }
    const float scale = static_cast<float>(static_cast<double>(kInputScale) *
                                           static_cast<double>(scales.data<float>()[o]) / unit);
    double rest = c.bias ? static_cast<double>(bias.data<float>()[o]) : 0;
    if (c.addend) rest -= 100 * static_cast<double>(kAddendScale);
    float value = std::fma(static_cast<float>(sum), scale, static_cast<float>(rest / unit));
    if (c.addend) {
      value = std::fma(
          static_cast<float>(ByteAt(addend, at)),
          bytes ? static_cast<float>(static_cast<double>(kAddendScale) / unit) : kAddendScale,
          value);
    }
    const std::string activation = c.activation;
    if (activation == "relu") value = std::max(value, 0.0f);
    if (activation == "clamp") {
      const float low = static_cast<float>(c.a), high = static_cast<float>(c.b);
      value = std::min(std::max(value, bytes ? low / kScale : low), bytes ? high / kScale : high);
    }
    if (!bytes) {
      y.data<float>()[at] = value;
      continue;
    }
    const double least = c.result == DType::kU8 ? 0 : -128, most = least + 255;
    const double rounded = std::nearbyint(static_cast<double>(value)) + OutputZero(c);
    const double clamped = std::clamp(rounded, least, most);
    if (c.result == DType::kU8) {
      y.data<uint8_t>()[at] = static_cast<uint8_t>(clamped);
    } else {
      y.data<int8_t>()[at] = static_cast<int8_t>(clamped);
    }
  }
  return y;
}

/// (N, C, H, W) as (N, H, W, C).
Tensor MoveChannels(const Tensor& nchw) {
  const int64_t planes = nchw.dim(1), pixels = nchw.dim(2) * nchw.dim(3);
  const int64_t size = static_cast<int64_t>(ItemSize(nchw.dtype()));
  Tensor nhwc(nchw.dtype(), ToNhwc(nchw.shape()));
  for (int64_t i = 0; i < nchw.elements(); ++i) {
    const int64_t n = i / pixels / planes, c = i / pixels % planes, p = i % pixels;
    std::copy_n(nchw.raw() + i * size, size, nhwc.raw() + ((n * pixels + p) * planes + c) * size);
  }
  return nhwc;
}

void Check(const IntegerConvCase& c) {
  const Tensor x = Bytes(c.input, {c.batch, c.channels, c.height, c.width}, 3, c.extremes);
  const Tensor weight =
      Bytes(DType::kI8, {c.outputs, c.channels / c.groups, c.kernel_height, c.kernel_width}, 4,
            c.extremes);
  const Tensor scales =
      RandomTensor(DType::kF32, {c.outputs}, 5, 0.001 * c.scales, 0.02 * c.scales);
  const Tensor bias = RandomTensor(DType::kF32, {c.outputs}, 6, -20, 20);
  const Tensor addend = c.addend ? RandomTensor(DType::kU8, OutputShape(c), 7, 0, 255) : Tensor();
  const Tensor expected = Reference(c, x, weight, scales, bias, addend);
  for (const bool nhwc : {false, true}) {
    SCOPED_TRACE(nhwc ? "NHWC" : "NCHW");
    OperatorCase op(nhwc ? "nhwc.IntegerConv2d" : "oort.IntegerConv2d");
    op.Attribute("weight", weight).Attribute("scales", scales);
    if (c.bias) op.Attribute("bias", bias);
    op.Param("stride", std::to_string(c.stride)).Param("padding", std::to_string(c.padding));
    op.Param("dilation", std::to_string(c.dilation)).Param("groups", std::to_string(c.groups));
    op.Param("input_scale", "0.02").Param("input_zero_point", std::to_string(InputZero(c)));
    op.Param("dtype", std::string(Name(c.result)));
    op.Param("scale", "0.6").Param("zero_point", std::to_string(OutputZero(c)));
    op.Param("activation", c.activation);
    op.Param("activation_a", std::to_string(c.a)).Param("activation_b", std::to_string(c.b));
    op.Input(nhwc ? MoveChannels(x) : x);
    if (c.addend) {
      op.Param("addend_scale", "0.05").Param("addend_zero_point", "100");
      op.Input(nhwc ? MoveChannels(addend) : addend);
    }
    op.AlsoOnGpu().ExpectOutputs({nhwc ? MoveChannels(expected) : expected}, kBitExact);
  }
}

TEST(IntegerConv, IsExactForPixelsOfEveryWidth) {
  for (int64_t channels : {1, 3, 4, 7, 16, 33}) {
    for (int64_t outputs : {1, 5, 8, 17, 33, 49, 70}) {
      SCOPED_TRACE(std::to_string(channels) + " to " + std::to_string(outputs));
      Check({1, channels, 3, 5, outputs, 1, 1});
    }
  }
}

TEST(IntegerConv, IsExactForWindows) {
  Check({2, 3, 9, 11, 20, 3, 3, 1, 1});
  Check({1, 3, 14, 13, 64, 7, 7, 2, 3});
  Check({1, 5, 8, 9, 18, 3, 2, 1, 1, 2});
  Check({1, 12, 7, 7, 18, 3, 3, 2, 1, 1, 3});
  Check({1, 16, 6, 6, 16, 1, 1, 2, 0});
  Check({1, 4, 12, 12, 100, 5, 5, 1, 2});
}

/// Units that multiply matrices do 16 or 32 outputs at a time, which may lie in several rows, and
/// read 64 neighbours, of which the last ones may lie behind the image.
TEST(IntegerConv, IsExactForTilesOfOutputs) {
  Check({1, 64, 7, 7, 96, 3, 3, 1, 1});
  Check({2, 72, 14, 14, 70, 1, 1});
  Check({1, 64, 5, 67, 64, 1, 1});
  Check({1, 130, 9, 9, 33, 3, 3, 2, 1});
  Check({1, 3, 40, 37, 40, 7, 7, 2, 3});
  Check({1, 24, 13, 40, 20, 3, 3, 1, 2, 2});
  Check({1, 96, 6, 17, 48, 3, 3, 1, 1, 1, 3});
  Check({2, 192, 1, 1, 80, 1, 1});
  Check({3, 20, 4, 1, 150, 1, 1});
  Check({1, 40, 2, 30, 17, 1, 1, 2});
}

/// Windows of 3 x 3 that stand side by side, of which some units make four outputs at a time.
TEST(IntegerConv, IsExactForOutputsByFours) {
  for (const int64_t size : {1, 2, 5, 8}) {
    for (const int64_t padding : {0, 1, 3}) {
      if (size + 2 * padding < 3) continue;
      SCOPED_TRACE(std::to_string(size) + " padded by " + std::to_string(padding));
      Check({1, 16, size, size + 1, 25, 3, 3, 1, padding});
    }
  }
  Check({2, 48, 13, 16, 40, 3, 3, 1, 1});
  Check({1, 32, 3, 70, 16, 3, 3, 1, 0});
}

/// The largest numbers of as many channels as sums of these outputs fit into 32 bits with, and one
/// step more, for which they are made one by one.
TEST(IntegerConv, IsExactByFoursAtTheExtremes) {
  for (const int64_t channels : {1808, 1824}) {
    for (const DType input : {DType::kU8, DType::kI8}) {
      IntegerConvCase c{1, channels, 4, 3, 17, 3, 3, 1, 1};
      c.input = input;
      c.result = DType::kF32;
      c.extremes = true;
      Check(c);
    }
  }
}

/// An activation by a table, and one in f32, of a sum, which outputs that are made by fours reach
/// by another way: whatever the algorithm, results are the same bits.
TEST(IntegerConv, IsTheSameByEveryAlgorithm) {
  const Tensor x = Bytes(DType::kU8, {2, 9, 12, 32}, 3, false);
  const Tensor weight = Bytes(DType::kI8, {40, 32, 3, 3}, 4, false);
  const Tensor scales = RandomTensor(DType::kF32, {40}, 5, 0.001, 0.02);
  for (const char* dtype : {"u8", "f32"}) {
    for (const bool sums : {false, true}) {
      std::vector<Tensor> results;
      for (const char* algorithm : {"direct", "winograd-f2"}) {
        OperatorCase op("nhwc.IntegerConv2d");
        op.Attribute("weight", weight).Attribute("scales", scales).Input(x);
        op.Param("input_scale", "0.02").Param("input_zero_point", "117").Param("padding", "1");
        op.Param("activation", "silu").Param("dtype", dtype).Param("scale", "0.25");
        op.Param("conv_algorithm", algorithm);
        if (sums) {
          op.Param("addend_scale", "0.05").Param("addend_zero_point", "100");
          op.Input(Bytes(DType::kU8, {2, 9, 12, 40}, 7, false));
        }
        results.push_back(op.Run()[0].Clone());
      }
      ExpectNear(results[1], results[0], kBitExact);
    }
  }
}

TEST(IntegerConv, IsExactForTilesThatActivate) {
  for (const DType result : {DType::kU8, DType::kI8, DType::kF32}) {
    for (const DType input : {DType::kU8, DType::kI8}) {
      if (testing::TriesFewer() && input == result) continue;
      IntegerConvCase c{1, 66, 8, 11, 75, 3, 3, 1, 1};
      c.input = input;
      c.result = result;
      c.addend = true;
      c.activation = "relu";
      Check(c);
      c.extremes = true;
      c.addend = false;
      Check(c);
    }
  }
}

/// Numbers of more than 32 bits are what the limits are, not what is left of them.
TEST(IntegerConv, LimitsNumbersBeyondIntegers) {
  for (const DType result : {DType::kU8, DType::kI8}) {
    for (const double scales : {1e6, 1e12, 1e30}) {
      IntegerConvCase c{1, 20, 9, 6, 40, 3, 3, 1, 1};
      c.result = result;
      c.scales = scales;
      Check(c);
      c.groups = c.outputs = c.channels;
      Check(c);
    }
  }
}

TEST(IntegerConv, IsExactForSingleChannels) {
  for (int64_t channels : {2, 8, 15, 16, 17, 40, 64}) {
    SCOPED_TRACE(channels);
    Check({1, channels, 9, 12, channels, 3, 3, 1, 1, 1, channels});
    Check({2, channels, 9, 12, channels, 3, 3, 2, 1, 1, channels});
    Check({1, channels, 11, 12, channels, 5, 5, 1, 2, 1, channels});
    Check({1, channels, 7, 21, channels, 1, 2, 1, 0, 2, channels});
  }
}

/// Wide rows, of which only some are prepared at a time.
TEST(IntegerConv, IsExactForBandsOfRows) {
  Check({1, 520, 11, 40, 520, 3, 3, 1, 1, 1, 520});
  Check({2, 520, 12, 41, 520, 5, 5, 2, 2, 1, 520});
  Check({1, 520, 13, 40, 520, 3, 3, 1, 2, 2, 520});
}

TEST(IntegerConv, IsExactAtTheExtremes) {
  for (const DType input : {DType::kU8, DType::kI8}) {
    for (const DType result : {DType::kU8, DType::kI8, DType::kF32}) {
      SCOPED_TRACE(std::string(Name(input)) + " to " + std::string(Name(result)));
      IntegerConvCase c{1, 40, 5, 6, 24, 3, 3, 1, 1};
      c.input = input;
      c.result = result;
      Check(c);
      c.extremes = true;
      Check(c);
      c.groups = c.outputs = c.channels;
      Check(c);
    }
  }
}

TEST(IntegerConv, AddsAndActivates) {
  for (const DType result : {DType::kU8, DType::kI8, DType::kF32}) {
    for (const bool single : {false, true}) {
      IntegerConvCase c{1, 20, 6, 7, 20, 3, 3, 1, 1};
      if (single) c.groups = 20;
      c.result = result;
      c.addend = true;
      Check(c);
      c.activation = "relu";
      Check(c);
      c.activation = "clamp";
      c.a = -1.5;
      c.b = 6;
      c.bias = false;
      Check(c);
      c.addend = false;
      Check(c);
    }
  }
}

/// An activation that is no clamp is computed in f32, within a step of what doubles give.
TEST(IntegerConv, ActivatesByFormulas) {
  for (const bool single : {false, true}) {
    const int64_t groups = single ? 20 : 1;
    const Tensor x = Bytes(DType::kU8, {1, 5, 6, 20}, 3, false);
    const Tensor weight = Bytes(DType::kI8, {20, 20 / groups, 1, 1}, 4, false);
    const Tensor scales = RandomTensor(DType::kF32, {20}, 5, 0.001, 0.02);
    OperatorCase plain("nhwc.IntegerConv2d");
    OperatorCase silu("nhwc.IntegerConv2d");
    for (OperatorCase* op : {&plain, &silu}) {
      op->Attribute("weight", weight).Attribute("scales", scales).Input(x);
      op->Param("input_scale", "0.02").Param("input_zero_point", "117");
      op->Param("groups", std::to_string(groups)).Param("dtype", "f32");
    }
    Tensor expected = plain.Run()[0].Clone();
    for (int64_t i = 0; i < expected.elements(); ++i) {
      float& value = expected.data<float>()[i];
      value /= 1 + std::exp(-value);
    }
    silu.Param("activation", "silu").AlsoOnGpu().ExpectOutputs({expected});
    Tensor bytes(DType::kU8, expected.shape());
    for (int64_t i = 0; i < bytes.elements(); ++i) {
      const float steps = std::nearbyint(expected.data<float>()[i] / 0.25f) + 9;
      bytes.data<uint8_t>()[i] = static_cast<uint8_t>(std::clamp(steps, 0.0f, 255.0f));
    }
    silu.Param("dtype", "u8").Param("scale", "0.25").Param("zero_point", "9");
    const Tensor got = silu.Run()[0];
    for (int64_t i = 0; i < bytes.elements(); ++i) {
      ASSERT_LE(std::abs(got.data<uint8_t>()[i] - bytes.data<uint8_t>()[i]), 1) << i;
    }
  }
}

/// Bytes of activations with exponentials come from a table where that is fine enough: they are
/// those of the formula but near ties.
TEST(IntegerConv, LooksActivationsUp) {
  const Tensor x = Bytes(DType::kU8, {1, 9, 11, 24}, 3, false);
  const Tensor weight = Bytes(DType::kI8, {40, 24, 1, 1}, 4, false);
  const Tensor scales = RandomTensor(DType::kF32, {40}, 5, 0.001, 0.02);
  for (const char* activation : {"silu", "sigmoid", "tanh", "gelu", "mish"}) {
    for (const float step : {0.25f, 0.03f, 0.0004f}) {
      SCOPED_TRACE(std::string(activation) + " " + std::to_string(step));
      OperatorCase numbers("nhwc.IntegerConv2d"), bytes("nhwc.IntegerConv2d");
      for (OperatorCase* op : {&numbers, &bytes}) {
        op->Attribute("weight", weight).Attribute("scales", scales).Input(x);
        op->Param("input_scale", "0.02").Param("input_zero_point", "117");
        op->Param("activation", activation);
      }
      const Tensor exact = numbers.Param("dtype", "f32").Run()[0];
      bytes.Param("dtype", "i8").Param("scale", std::to_string(step)).Param("zero_point", "-100");
      const Tensor got = bytes.Run()[0];
      int64_t others = 0;
      for (int64_t i = 0; i < got.elements(); ++i) {
        const float rounded = std::nearbyint(exact.data<float>()[i] / step) - 100;
        const auto wanted = static_cast<int>(std::clamp(rounded, -128.0f, 127.0f));
        ASSERT_LE(std::abs(got.data<int8_t>()[i] - wanted), 1) << i;
        others += got.data<int8_t>()[i] != wanted;
      }
      EXPECT_LE(others * 10, got.elements());
    }
  }
}

TEST(IntegerLinear, MultipliesRows) {
  for (int64_t rows : {1, 2, 3, 7, 13, 34}) {
    for (int64_t in : {37, 64, 100, 256}) {
      const int64_t out = in == 37 ? 21 : 70;
      const Tensor x = Bytes(DType::kI8, {rows, in}, 3, false);
      const Tensor weight = Bytes(DType::kI8, {out, in}, 4, false);
      const Tensor scales = RandomTensor(DType::kF32, {out}, 5, 0.001, 0.02);
      Tensor expected(DType::kF32, {rows, out});
      for (int64_t i = 0; i < expected.elements(); ++i) {
        int32_t sum = 0;
        for (int64_t k = 0; k < in; ++k) {
          sum += (ByteAt(x, i / out * in + k) + 3) * ByteAt(weight, i % out * in + k);
        }
        const double scale = static_cast<double>(scales.data<float>()[i % out]) * 0.5;
        expected.data<float>()[i] = static_cast<float>(sum) * static_cast<float>(scale);
      }
      OperatorCase("oort.IntegerLinear")
          .Attribute("weight", weight)
          .Attribute("scales", scales)
          .Param("input_scale", "0.5")
          .Param("input_zero_point", "-3")
          .Param("dtype", "f32")
          .Input(x.Reshaped({rows, 1, in}))
          .AlsoOnGpu()
          .ExpectOutputs({expected.Reshaped({rows, 1, out})}, kBitExact);
    }
  }
}

TEST(IntegerConv, RefusesWhatDoesNotFit) {
  const auto make = [](const Tensor& x, const Tensor& weight, const char* zero_point) {
    return OperatorCase("oort.IntegerConv2d")
        .Attribute("weight", weight)
        .Attribute("scales", RandomTensor(DType::kF32, {4}, 1, 1, 2))
        .Param("input_scale", "0.5")
        .Param("input_zero_point", zero_point)
        .Param("dtype", "u8")
        .Input(x);
  };
  const Tensor x(DType::kU8, {1, 3, 4, 4});
  const Tensor weight = RandomTensor(DType::kI8, {4, 3, 1, 1});
  make(x, RandomTensor(DType::kI8, {4, 2, 1, 1}), "0")
      .ExpectError(ErrorCode::kInvalidArgument, "input channels");
  make(x, RandomTensor(DType::kI8, {5, 3, 1, 1}), "0")
      .ExpectError(ErrorCode::kInvalidModel, "@scales of shape");
  make(x, weight, "-1").ExpectError(ErrorCode::kInvalidModel, "zero point from 0 to 255, got -1");
  make(x, Tensor(DType::kI8, {4, 70000, 1, 1}), "0")
      .ExpectError(ErrorCode::kUnsupported, "sums fit into 32 bits");
  make(x, weight, "0")
      .Param("padding", "100000")
      .Param("stride", "100000")
      .ExpectError(ErrorCode::kUnsupported, "padding of at most 1");
  make(x, weight, "0").Param("scale", "0.0").ExpectError(ErrorCode::kInvalidModel, "scale above 0");
  make(x, weight, "0")
      .Input(Tensor(DType::kU8, {1, 4, 4, 3}))
      .ExpectError(ErrorCode::kInvalidArgument, "an addend of shape");
}

}  // namespace
}  // namespace oort::testing
