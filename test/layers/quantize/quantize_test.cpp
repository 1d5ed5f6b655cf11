// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "layers/quantize/bit_exact.h"

namespace oort::testing {
namespace {

OperatorCase Quantize(const char* scale, const char* zero_point, const char* dtype,
                      const Tensor& x) {
  return OperatorCase("oort.Quantize")
      .Param("scale", scale)
      .Param("zero_point", zero_point)
      .Param("dtype", dtype)
      .Input(x);
}

TEST(Quantize, RoundsHalfToEvenAndSaturates) {
  const Tensor x = Tensor::From<float>({-0.75f, -0.25f, 0, 0.25f, 0.75f, 1.25f, 1.3f, 1e30f, -1e30f,
                                        INFINITY, -INFINITY, NAN, 63.5f, 64},
                                       {14});
  Quantize("0.5", "3", "u8", x)
      .AlsoOnGpu()
      .ExpectOutputs(
          {Tensor::From<uint8_t>({1, 3, 3, 3, 5, 5, 6, 255, 0, 255, 0, 3, 130, 131}, {14})});
  Quantize("0.5", "-3", "i8", x)
      .AlsoOnGpu()
      .ExpectOutputs({Tensor::From<int8_t>(
          {-5, -3, -3, -3, -1, -1, 0, 127, -128, 127, -128, -3, 124, 125}, {14})});
  Quantize("0.5", "255", "u8", x)
      .AlsoOnGpu()
      .ExpectOutputs({Tensor::From<uint8_t>(
          {253, 255, 255, 255, 255, 255, 255, 255, 0, 255, 0, 255, 255, 255}, {14})});
}

/// The same numbers in whole vectors.
TEST(Quantize, SaturatesInVectors) {
  const float numbers[] = {-0.75f, 0.25f, 1.25f, 1e30f, -1e30f, INFINITY, -INFINITY, NAN, 63.5f};
  const uint8_t bytes[] = {1, 3, 5, 255, 0, 255, 0, 3, 130};
  Tensor x(DType::kF32, {9 * 16}), q(DType::kU8, {9 * 16});
  for (int64_t i = 0; i < x.elements(); ++i) {
    x.data<float>()[i] = numbers[i % 9];
    q.data<uint8_t>()[i] = bytes[i % 9];
  }
  Quantize("0.5", "3", "u8", x).AlsoOnGpu().ExpectOutputs({q}, kBitExact);
}

TEST(Quantize, MatchesItsFormulaAtEveryLength) {
  for (int64_t length : EdgeLengths()) {
    const Tensor x = RandomTensor(DType::kF32, {2, length}, 7, -40, 40);
    Tensor q(DType::kU8, x.shape());
    for (int64_t i = 0; i < x.elements(); ++i) {
      const float rounded = std::nearbyint(x.data<float>()[i] * (1.0f / 0.17f)) + 100.0f;
      q.data<uint8_t>()[i] = static_cast<uint8_t>(std::clamp(rounded, 0.0f, 255.0f));
    }
    Quantize("0.17", "100", "u8", x).AlsoOnGpu().ExpectOutputs({q}, kBitExact);
  }
}

TEST(Quantize, RefusesScalesAndZeroPointsThatAreNone) {
  const Tensor x = RandomTensor(DType::kF32, {4});
  for (const char* scale : {"0.0", "-0.5", "1e-50", "1e-39", "1e50", "inf", "nan"}) {
    SCOPED_TRACE(scale);
    Quantize(scale, "0", "u8", x).ExpectError(ErrorCode::kInvalidModel, "scale");
  }
  Quantize("1.0", "256", "u8", x)
      .ExpectError(ErrorCode::kInvalidModel, "zero point from 0 to 255, got 256");
  Quantize("1.0", "128", "i8", x)
      .ExpectError(ErrorCode::kInvalidModel, "zero point from -128 to 127, got 128");
  Quantize("1.0", "0", "i32", x).ExpectError(ErrorCode::kInvalidModel, "i32");
  Quantize("1.0", "0", "u8", x.To(DType::kI64))
      .ExpectError(ErrorCode::kInvalidArgument, "dtype i64; it takes f32");
}

TEST(Dequantize, MatchesItsFormula) {
  for (int64_t length : EdgeLengths()) {
    const Tensor u = RandomTensor(DType::kU8, {length}, 3, 0, 255);
    const Tensor i = RandomTensor(DType::kI8, {length}, 4, -128, 127);
    Tensor from_u(DType::kF32, {length}), from_i(DType::kF32, {length});
    for (int64_t k = 0; k < length; ++k) {
      from_u.data<float>()[k] = static_cast<float>(u.data<uint8_t>()[k] - 7) * 0.3f;
      from_i.data<float>()[k] = static_cast<float>(i.data<int8_t>()[k] + 128) * 0.3f;
    }
    const auto dequantize = [](const char* zero_point, const Tensor& q) {
      return OperatorCase("oort.Dequantize")
          .Param("scale", "0.3")
          .Param("zero_point", zero_point)
          .Input(q);
    };
    dequantize("7", u).AlsoOnGpu().ExpectOutputs({from_u}, kBitExact);
    dequantize("-128", i).AlsoOnGpu().ExpectOutputs({from_i}, kBitExact);
  }
}

OperatorCase PerChannel(const Tensor& q, const char* axis, const Tensor& scales) {
  return OperatorCase("oort.Dequantize").Param("axis", axis).Attribute("scales", scales).Input(q);
}

TEST(Dequantize, HasAScaleForEachChannel) {
  const Tensor q = Tensor::From<int8_t>({-127, 0, 127, 1, 2, 3, -1, -2, -3, 9, 9, 9}, {2, 3, 2});
  const Tensor outer = Tensor::From<float>({0.5f, 2.0f}, {2});
  PerChannel(q, "0", outer)
      .AlsoOnGpu()
      .ExpectOutputs({Tensor::From<float>({-63.5f, 0, 63.5f, 0.5f, 1, 1.5f, -2, -4, -6, 18, 18, 18},
                                          {2, 3, 2})},
                     kBitExact);
  const Tensor middle = Tensor::From<float>({1, 2, 4}, {3});
  PerChannel(q, "-2", middle)
      .Attribute("zero_points", Tensor::From<int32_t>({0, 1, -1}, {3}))
      .AlsoOnGpu()
      .ExpectOutputs(
          {Tensor::From<float>({-127, 0, 252, 0, 12, 16, -1, -2, -8, 16, 40, 40}, {2, 3, 2})},
          kBitExact);
  PerChannel(Tensor(DType::kI8, {0, 3}), "1", middle)
      .AlsoOnGpu()
      .ExpectOutputs({Tensor(DType::kF32, {0, 3})});
}

TEST(Dequantize, RefusesWhatDoesNotFit) {
  const Tensor q = RandomTensor(DType::kI8, {2, 3}, 1, -128, 127);
  const Tensor scales = Tensor::From<float>({1, 2, 4}, {3});
  PerChannel(q, "0", scales)
      .ExpectError(ErrorCode::kInvalidArgument, "each of 2 channels of axis 0, got 3");
  PerChannel(q, "2", scales).ExpectError(ErrorCode::kInvalidArgument, "axis");
  PerChannel(q, "1", Tensor::From<float>({1, 0, 4}, {3}))
      .ExpectError(ErrorCode::kInvalidModel, "scale above 0");
  PerChannel(q, "1", scales)
      .Param("scale", "0.5")
      .ExpectError(ErrorCode::kInvalidModel, "not both");
  PerChannel(q, "1", scales)
      .Attribute("zero_points", Tensor::From<int32_t>({0, 0, 200}, {3}))
      .ExpectError(ErrorCode::kInvalidModel, "zero point from -128 to 127, got 200");
  PerChannel(q, "1", scales)
      .Attribute("zero_points", Tensor::From<int32_t>({0, 0}, {2}))
      .ExpectError(ErrorCode::kInvalidModel, "as many zero points as scales");
  OperatorCase("oort.Dequantize").Input(q).ExpectError(ErrorCode::kInvalidModel, "scale");
  OperatorCase("oort.Dequantize")
      .Param("scale", "1.0")
      .Param("axis", "0")
      .Input(q)
      .ExpectError(ErrorCode::kInvalidModel, "an axis goes with");
  OperatorCase("oort.Dequantize")
      .Param("scale", "1.0")
      .Param("zero_point", "-1")
      .Input(q.To(DType::kU8))
      .ExpectError(ErrorCode::kInvalidModel, "zero point from 0 to 255, got -1");
  OperatorCase("oort.Dequantize")
      .Param("scale", "1.0")
      .Param("zero_point", "3000000000")
      .Input(q)
      .ExpectError(ErrorCode::kInvalidModel, "zero point");
}

}  // namespace
}  // namespace oort::testing
