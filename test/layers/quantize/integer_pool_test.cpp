// SPDX-License-Identifier: MIT
// Means and maxima of bytes against their formulas.
#include <algorithm>

#include <gtest/gtest.h>

#include "layers/quantize/bit_exact.h"

namespace oort::testing {
namespace {

OperatorCase Pool(bool nhwc, const Tensor& x) {
  return OperatorCase(nhwc ? "nhwc.IntegerAvgPool2d" : "oort.IntegerAvgPool2d")
      .Param("input_scale", "0.5")
      .Param("input_zero_point", "3")
      .Param("dtype", "u8")
      .Param("scale", "0.25")
      .Param("zero_point", "40")
      .Input(x);
}

TEST(IntegerAvgPool, AveragesWindows) {
  // Two channels of 2 x 4: windows of 2 x 2 without padding, then of all.
  const Tensor x =
      Tensor::From<uint8_t>({3, 5, 9, 9, 7, 5, 9, 8, 255, 255, 0, 0, 255, 255, 0, 0}, {1, 2, 2, 4});
  const Tensor last =
      Tensor::From<uint8_t>({3, 255, 5, 255, 9, 0, 9, 0, 7, 255, 5, 255, 9, 0, 8, 0}, {1, 2, 4, 2});
  // Means 2, 5.75, 252, -3 in steps of half, doubled into those of a quarter.
  Pool(false, x)
      .Param("kernel_size", "(2,2)")
      .AlsoOnGpu()
      .ExpectOutputs({Tensor::From<uint8_t>({44, 52, 255, 34}, {1, 2, 1, 2})}, kBitExact);
  Pool(true, last)
      .Param("kernel_size", "(2,2)")
      .AlsoOnGpu()
      .ExpectOutputs({Tensor::From<uint8_t>({44, 255, 52, 34}, {1, 1, 2, 2})}, kBitExact);
  // Sums 31 and 996 of eight: 3.875 and 124.5, doubled 7.75 and 249.
  Pool(false, x)
      .Param("output_size", "(1,1)")
      .AlsoOnGpu()
      .ExpectOutputs({Tensor::From<uint8_t>({48, 255}, {1, 2, 1, 1})}, kBitExact);
  Pool(true, last)
      .Param("output_size", "(1,1)")
      .AlsoOnGpu()
      .ExpectOutputs({Tensor::From<uint8_t>({48, 255}, {1, 1, 1, 2})}, kBitExact);
}

TEST(IntegerAvgPool, CountsThePaddingAsItIsTold) {
  const Tensor x = Tensor::From<int8_t>({11, 11, 11, 11}, {1, 1, 2, 2});
  // Of nine pixels five are padding, which is zero: 8 * 4 / 9 doubled is 7.1, without it 16.
  const auto pool = [&](const char* counts) {
    return Pool(false, x)
        .Param("kernel_size", "(3,3)")
        .Param("stride", "(2,2)")
        .Param("padding", "(1,1)")
        .Param("count_include_pad", counts);
  };
  pool("True").AlsoOnGpu().ExpectOutputs({Tensor::From<uint8_t>({47}, {1, 1, 1, 1})}, kBitExact);
  pool("False").AlsoOnGpu().ExpectOutputs({Tensor::From<uint8_t>({56}, {1, 1, 1, 1})}, kBitExact);
}

TEST(IntegerAvgPool, GivesNumbersWhereNobodyQuantizesThem) {
  constexpr int64_t kChannels = 150, kPixels = 5 * 7;  // more than are summed together
  const Tensor x = RandomTensor(DType::kU8, {2, 5, 7, kChannels}, 3, 0, 255);
  Tensor means(DType::kF32, {2, 1, 1, kChannels});
  for (int64_t i = 0; i < means.elements(); ++i) {
    int32_t sum = 0;
    for (int64_t pixel = 0; pixel < kPixels; ++pixel) {
      sum += x.data<uint8_t>()[(i / kChannels * kPixels + pixel) * kChannels + i % kChannels] - 3;
    }
    means.data<float>()[i] = static_cast<float>(sum) * static_cast<float>(0.5 / kPixels);
  }
  Pool(true, x)
      .Param("output_size", "(1,1)")
      .Param("dtype", "f32")
      .ExpectOutputs({means}, kBitExact);
}

TEST(IntegerAvgPool, RefusesWhatDoesNotFit) {
  const Tensor x(DType::kU8, {1, 2, 2, 4});
  Pool(false, x).ExpectError(ErrorCode::kInvalidModel, "either an output_size or a kernel_size");
  Pool(false, x).Param("kernel_size", "(5,5)").ExpectError(ErrorCode::kInvalidArgument, "");
}

TEST(NhwcMaxPool, PoolsBytes) {
  const Tensor u = Tensor::From<uint8_t>({0, 200, 7, 100, 255, 3}, {1, 3, 2});
  const Tensor i = Tensor::From<int8_t>({-128, -3, -7, -100, -127, -5}, {1, 3, 2});
  const auto pool = [](const Tensor& x) {
    return OperatorCase("nhwc.MaxPool2d")
        .Param("kernel_size", "(1,2)")
        .Param("stride", "(1,1)")
        .Input(x);
  };
  pool(u).AlsoOnGpu().ExpectOutputs({Tensor::From<uint8_t>({7, 200, 255, 100}, {1, 2, 2})},
                                    kBitExact);
  pool(i).AlsoOnGpu().ExpectOutputs({Tensor::From<int8_t>({-7, -3, -7, -5}, {1, 2, 2})}, kBitExact);
}

// A GPU takes 16, 4 or one channel at a time.
TEST(NhwcMaxPool, PoolsBytesOfManyChannels) {
  for (int64_t channels : {32, 20, 7}) {
    const Tensor x = RandomTensor(DType::kU8, {2, 5, 6, channels}, 3, 0, 255);
    Tensor want(DType::kU8, {2, 2, 5, channels});  // windows of 3 by 2, two rows apart
    for (int64_t i = 0; i < want.elements(); ++i) {
      const int64_t c = i % channels, column = i / channels % 5, row = i / channels / 5 % 2;
      const int64_t image = i / channels / 10;
      uint8_t most = 0;
      for (int64_t tap = 0; tap < 6; ++tap) {
        const int64_t y = row * 2 + tap / 2, at = column + tap % 2;
        most = std::max(most, x.data<uint8_t>()[((image * 5 + y) * 6 + at) * channels + c]);
      }
      want.data<uint8_t>()[i] = most;
    }
    OperatorCase("nhwc.MaxPool2d")
        .Param("kernel_size", "(3,2)")
        .Param("stride", "(2,1)")
        .Input(x)
        .AlsoOnGpu()
        .ExpectOutputs({want}, kBitExact);
  }
}

}  // namespace
}  // namespace oort::testing
