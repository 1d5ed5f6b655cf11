// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "layers/layout/nhwc_reference.h"

namespace oort::testing {
namespace {

OperatorCase Pack(const char* dtype, int64_t channels) {
  return OperatorCase("nhwc.pack")
      .Param("dtype", dtype)
      .Param("channels", std::to_string(channels));
}

/// The channels behind the pixels, filled up with zeros.
Tensor Packed(const Tensor& x, DType dtype, int64_t channels) {
  const Tensor moved = WithNhwc(x.To(DType::kF32));
  Shape shape = moved.shape();
  const int64_t own = shape[shape.rank() - 1];
  shape[shape.rank() - 1] = channels;
  Tensor y = Tensor::Zeros(DType::kF32, shape);
  for (int64_t i = 0; i < moved.elements(); ++i) {
    y.data<float>()[i / own * channels + i % own] = moved.data<float>()[i];
  }
  return y.To(dtype);
}

TEST(NhwcPack, FillsChannelsUpAndRounds) {
  for (const auto& [name, dtype] : {std::pair("f32", DType::kF32), std::pair("f16", DType::kF16),
                                    std::pair("bf16", DType::kBF16)}) {
    SCOPED_TRACE(name);
    for (const Shape& shape : {Shape{2, 3, 5, 7}, Shape{3, 33, 31}, Shape{1, 1, 1, 1}}) {
      const Tensor x = RandomTensor(DType::kF32, shape);
      for (int64_t channels : {3, 4, 8, 24}) {
        Pack(name, channels).Input(x).ExpectOutputs({Packed(x, dtype, channels)}, {0, 0});
      }
    }
    const Tensor half = RandomTensor(DType::kF16, {1, 2, 3, 4});
    Pack(name, 4).Input(half).ExpectOutputs({Packed(half, dtype, 4)}, {0, 0});
  }
}

TEST(NhwcPack, RefusesWhatDoesNotFit) {
  const Tensor x = RandomTensor(DType::kF32, {1, 5, 2, 2});
  Pack("f16", 4).Input(x).ExpectError(ErrorCode::kInvalidArgument, "at most 4 channels");
  Pack("f16", 8)
      .Input(RandomTensor(DType::kF32, {2, 2}))
      .ExpectError(ErrorCode::kInvalidArgument, "rank 3 or 4");
  Pack("i8", 8).Input(x).ExpectError(ErrorCode::kInvalidModel, "f32, f16 or bf16");
}

}  // namespace
}  // namespace oort::testing
