// SPDX-License-Identifier: MIT
// Sums and tables of bytes against their formulas.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "layers/quantize/bit_exact.h"

namespace oort::testing {
namespace {

OperatorCase Add(const Tensor& a, const Tensor& b, const char* activation) {
  return OperatorCase("oort.IntegerAdd")
      .Param("a_scale", "0.5")
      .Param("a_zero_point", "10")
      .Param("b_scale", "0.25")
      .Param("b_zero_point", "-7")
      .Param("dtype", "i8")
      .Param("scale", "1.0")
      .Param("zero_point", "-20")
      .Param("activation", activation)
      .Param("activation_a", "-3.0")
      .Param("activation_b", "6.0")
      .Input(a)
      .Input(b);
}

TEST(IntegerAdd, AddsBytesOfDifferentKinds) {
  for (const char* activation : {"none", "relu", "clamp"}) {
    for (int64_t length : EdgeLengths()) {
      SCOPED_TRACE(std::string(activation) + " " + std::to_string(length));
      const Tensor a = RandomTensor(DType::kU8, {length}, 3, 0, 255);
      const Tensor b = RandomTensor(DType::kI8, {length}, 4, -128, 127);
      Tensor sum(DType::kI8, {length});
      for (int64_t i = 0; i < length; ++i) {
        // Halves and quarters: sums are exact in f32, and many are ties.
        float value = static_cast<float>(a.data<uint8_t>()[i] - 10) * 0.5f +
                      static_cast<float>(b.data<int8_t>()[i] + 7) * 0.25f;
        if (activation == std::string("relu")) value = std::max(value, 0.0f);
        if (activation == std::string("clamp")) value = std::clamp(value, -3.0f, 6.0f);
        const float rounded = std::nearbyint(value) - 20;
        sum.data<int8_t>()[i] = static_cast<int8_t>(std::clamp(rounded, -128.0f, 127.0f));
      }
      Add(a, b, activation).AlsoOnGpu().ExpectOutputs({sum}, kBitExact);
    }
  }
}

TEST(IntegerAdd, RefusesWhatDoesNotFit) {
  const Tensor a(DType::kU8, {4}), b(DType::kI8, {4});
  Add(a, Tensor(DType::kI8, {5}), "none")
      .ExpectError(ErrorCode::kInvalidArgument, "summands of one shape");
  Add(a, b, "silu").ExpectError(ErrorCode::kUnsupported, "none, relu or clamp");
  Add(a, a, "none").ExpectError(ErrorCode::kInvalidModel, "zero point from 0 to 255, got -7");
}

OperatorCase Multiply(const Tensor& a, const Tensor& b, const char* activation) {
  return OperatorCase("oort.IntegerMul")
      .Param("a_scale", "0.5")
      .Param("a_zero_point", "10")
      .Param("b_scale", "0.03125")
      .Param("b_zero_point", "-7")
      .Param("dtype", "i8")
      .Param("scale", "2.0")
      .Param("zero_point", "-20")
      .Param("activation", activation)
      .Param("activation_a", "-30.0")
      .Param("activation_b", "60.0")
      .Input(a)
      .Input(b);
}

/// The byte of a product of the two above. Powers of two: it is exact in f32, and many are ties.
int8_t ProductOf(uint8_t a, int8_t b, const std::string& activation) {
  float value = static_cast<float>((a - 10) * (b + 7)) / 64;
  if (activation == "relu") value = std::max(value, 0.0f);
  if (activation == "clamp") value = std::clamp(value, -30.0f, 60.0f);
  const float rounded = std::nearbyint(value / 2) - 20;
  return static_cast<int8_t>(std::clamp(rounded, -128.0f, 127.0f));
}

TEST(IntegerMul, MultipliesBytesOfDifferentKinds) {
  for (const char* activation : {"none", "relu", "clamp"}) {
    for (int64_t length : EdgeLengths()) {
      SCOPED_TRACE(std::string(activation) + " " + std::to_string(length));
      const Tensor a = RandomTensor(DType::kU8, {length}, 3, 0, 255);
      const Tensor b = RandomTensor(DType::kI8, {length}, 4, -128, 127);
      Tensor product(DType::kI8, {length});
      for (int64_t i = 0; i < length; ++i) {
        product.data<int8_t>()[i] =
            ProductOf(a.data<uint8_t>()[i], b.data<int8_t>()[i], activation);
      }
      Multiply(a, b, activation).AlsoOnGpu().ExpectOutputs({product}, kBitExact);
    }
  }
}

/// Every pair of bytes, with a scale whose products round: all instruction sets give the same bits.
TEST(IntegerMul, RoundsOnce) {
  Tensor a(DType::kU8, {256, 256}), b(DType::kU8, {256, 256}), product(DType::kU8, {256, 256});
  const float scale = static_cast<float>(
      static_cast<double>(0.0173f) * static_cast<double>(0.0039f) / static_cast<double>(0.011f));
  for (int i = 0; i < 256; ++i) {
    for (int j = 0; j < 256; ++j) {
      const int at = 256 * i + j;
      a.data<uint8_t>()[at] = static_cast<uint8_t>(i);
      b.data<uint8_t>()[at] = static_cast<uint8_t>(j);
      const float rounded = std::nearbyint(static_cast<float>((i - 119) * (j - 3)) * scale) + 77;
      product.data<uint8_t>()[at] = static_cast<uint8_t>(std::clamp(rounded, 0.0f, 255.0f));
    }
  }
  OperatorCase("oort.IntegerMul")
      .Param("a_scale", "0.0173")
      .Param("a_zero_point", "119")
      .Param("b_scale", "0.0039")
      .Param("b_zero_point", "3")
      .Param("dtype", "u8")
      .Param("scale", "0.011")
      .Param("zero_point", "77")
      .Input(a)
      .Input(b)
      .AlsoOnGpu()
      .ExpectOutputs({product}, kBitExact);
}

/// One factor for each channel of images, in both layouts.
TEST(IntegerMul, RepeatsFactorsOfChannels) {
  for (const bool nhwc : {false, true}) {
    for (const int64_t channels : {1, 5, 16, 37, 300}) {
      SCOPED_TRACE(std::to_string(channels) + (nhwc ? " NHWC" : " NCHW"));
      constexpr int64_t kImages = 2, kPixels = 7 * 5;
      const Shape whole = nhwc ? Shape{kImages, 7, 5, channels} : Shape{kImages, channels, 7, 5};
      const Shape part = nhwc ? Shape{kImages, 1, 1, channels} : Shape{kImages, channels, 1, 1};
      const Tensor a = RandomTensor(DType::kU8, whole, 3, 0, 255);
      const Tensor b = RandomTensor(DType::kI8, part, 4, -128, 127);
      Tensor product(DType::kI8, whole);
      for (int64_t i = 0; i < product.elements(); ++i) {
        const int64_t image = i / (kPixels * channels);
        const int64_t channel = nhwc ? i % channels : i / kPixels % channels;
        product.data<int8_t>()[i] =
            ProductOf(a.data<uint8_t>()[i], b.data<int8_t>()[image * channels + channel], "none");
      }
      Multiply(a, b, "none").AlsoOnGpu().ExpectOutputs({product}, kBitExact);
    }
  }
}

TEST(IntegerMul, RefusesWhatDoesNotFit) {
  const Tensor a(DType::kU8, {2, 3, 4}), b(DType::kI8, {2, 3, 4});
  Multiply(a, Tensor(DType::kI8, {1, 3, 1}), "none")
      .ExpectError(ErrorCode::kInvalidArgument, "next to each other");
  Multiply(a, Tensor(DType::kI8, {2, 3}), "none")
      .ExpectError(ErrorCode::kInvalidArgument, "next to each other");
  Multiply(a, b, "silu").ExpectError(ErrorCode::kUnsupported, "none, relu or clamp");
  Multiply(a, a, "none").ExpectError(ErrorCode::kInvalidModel, "zero point from 0 to 255, got -7");
}

TEST(ByteTable, LooksBytesUp) {
  Tensor table(DType::kI8, {256});
  for (int i = 0; i < 256; ++i) table.data<int8_t>()[i] = static_cast<int8_t>(127 - i);
  for (int64_t length : EdgeLengths()) {
    const Tensor x = RandomTensor(DType::kU8, {length}, 3, 0, 255);
    const Tensor negative = RandomTensor(DType::kI8, {length}, 3, -128, 127);
    Tensor y(DType::kI8, {length}), z(DType::kI8, {length});
    for (int64_t i = 0; i < length; ++i) {
      y.data<int8_t>()[i] = static_cast<int8_t>(127 - x.data<uint8_t>()[i]);
      const auto bits = static_cast<uint8_t>(negative.data<int8_t>()[i]);
      z.data<int8_t>()[i] = static_cast<int8_t>(127 - bits);
    }
    OperatorCase("oort.ByteTable")
        .Attribute("table", table)
        .Input(x)
        .AlsoOnGpu()
        .ExpectOutputs({y}, kBitExact);
    OperatorCase("oort.ByteTable")
        .Attribute("table", table)
        .Input(negative)
        .AlsoOnGpu()
        .ExpectOutputs({z}, kBitExact);
  }
  OperatorCase("oort.ByteTable")
      .Attribute("table", Tensor(DType::kU8, {255}))
      .Input(Tensor(DType::kU8, {4}))
      .ExpectError(ErrorCode::kInvalidModel, "a table of 256 bytes");
}

}  // namespace
}  // namespace oort::testing
