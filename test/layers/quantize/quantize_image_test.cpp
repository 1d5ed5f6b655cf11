// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "layers/quantize/bit_exact.h"

namespace oort::testing {
namespace {

OperatorCase QuantizeImage(const Tensor& x, int64_t given, int64_t channels) {
  return OperatorCase("nhwc.Quantize")
      .Param("scale", "0.25")
      .Param("zero_point", "7")
      .Param("dtype", "u8")
      .Param("input_channels", std::to_string(given))
      .Param("channels", std::to_string(channels))
      .Input(x);
}

TEST(QuantizeImage, MovesChannelsAndAddsTheZeroPoint) {
  for (const int64_t given : {1, 3, 4}) {
    for (const int64_t channels : {4, 7}) {
      const int64_t pixels = 37 * 31;
      const Tensor x = RandomTensor(DType::kF32, {2, given, 37, 31}, 3, -5, 40);
      Tensor y(DType::kU8, {2, 37, 31, channels});
      for (int64_t i = 0; i < y.elements(); ++i) {
        const int64_t c = i % channels, pixel = i / channels % pixels, n = i / channels / pixels;
        const float steps =
            c < given ? std::nearbyint(x.data<float>()[(n * given + c) * pixels + pixel] * 4) : 0;
        y.data<uint8_t>()[i] = static_cast<uint8_t>(std::clamp(steps + 7, 0.0f, 255.0f));
      }
      QuantizeImage(x, given, channels).AlsoOnGpu().ExpectOutputs({y}, kBitExact);
    }
  }
}

TEST(QuantizeImage, PadsWithTheZeroPoint) {
  const Tensor x = Tensor::From<float>({1, 2, 3, 4, 5, 6}, {2, 1, 3});
  const Tensor y =
      Tensor::From<uint8_t>({7, 7, 7, 7, 7, 7, 7,  7,  7, 7,  7,  7, 7,  7,  7, 7, 7, 7, 7, 7, 7,
                             7, 7, 7, 7, 7, 7, 11, 23, 7, 15, 27, 7, 19, 31, 7, 7, 7, 7, 7, 7, 7,
                             7, 7, 7, 7, 7, 7, 7,  7,  7, 7,  7,  7, 7,  7,  7, 7, 7, 7, 7, 7, 7},
                            {3, 7, 3});
  QuantizeImage(x, 2, 3).Param("padding", "(1,2)").AlsoOnGpu().ExpectOutputs({y}, kBitExact);
}

TEST(QuantizeImage, RefusesWhatDoesNotFit) {
  const Tensor x(DType::kF32, {1, 3, 4, 4});
  QuantizeImage(x, 3, 2).ExpectError(ErrorCode::kInvalidModel, "at least as many channels");
  QuantizeImage(x, 2, 4).ExpectError(ErrorCode::kInvalidArgument, "with 2 channels");
}

}  // namespace
}  // namespace oort::testing
