// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "moved_elements.h"

namespace oort::testing {
namespace {

TEST(ChannelShuffle, DealsChannelsOut) {
  for (DType dtype : MovedDTypes()) {
    const Tensor x = RandomTensor(dtype, {2, 6, 3, 2});
    for (int64_t groups : {1, 2, 3, 6}) {
      OperatorCase("nn.ChannelShuffle")
          .Param("groups", std::to_string(groups))
          .Input(x)
          .ExpectOutputs({Moved(x, x.shape(), [&](Coordinates at) {
            at[1] = at[1] % groups * (6 / groups) + at[1] / groups;
            return at;
          })});
    }
  }
}

TEST(ChannelShuffle, RefusesWhatDoesNotDivide) {
  const Tensor x = RandomTensor(DType::kF32, {1, 6, 2, 2});
  OperatorCase("nn.ChannelShuffle")
      .Param("groups", "4")
      .Input(x)
      .ExpectError(ErrorCode::kInvalidArgument, "axis 1 of shape (1,6,2,2) is no multiple of 4");
  OperatorCase("nn.ChannelShuffle")
      .Param("groups", "0")
      .Input(x)
      .ExpectError(ErrorCode::kInvalidModel, "at least 1");
  OperatorCase("nn.ChannelShuffle")
      .Param("groups", "2")
      .Input(RandomTensor(DType::kF32, {4, 4}))
      .ExpectError(ErrorCode::kInvalidArgument, "rank of at least 3");
}

TEST(PixelShuffle, MovesChannelsIntoPixels) {
  for (DType dtype : MovedDTypes()) {
    for (int64_t r : {1, 2, 3}) {
      const Tensor x = RandomTensor(dtype, {2, 2 * r * r, 3, 4});
      const Tensor big = Moved(x, {2, 2, 3 * r, 4 * r}, [&](const Coordinates& at) {
        const int64_t channel = (at[1] * r + at[2] % r) * r + at[3] % r;
        return Coordinates{at[0], channel, at[2] / r, at[3] / r};
      });
      const std::string factor = std::to_string(r);
      for (const char* type : {"nn.PixelShuffle", "F.pixel_shuffle"}) {
        OperatorCase(type).Param("upscale_factor", factor).Input(x).ExpectOutputs({big});
      }
      for (const char* type : {"nn.PixelUnshuffle", "F.pixel_unshuffle"}) {
        OperatorCase(type).Param("downscale_factor", factor).Input(big).ExpectOutputs({x});
      }
    }
  }
}

TEST(PixelShuffle, TakesRankThree) {
  const Tensor x = RandomTensor(DType::kF32, {4, 1, 2});
  const Tensor big = Moved(x, {1, 2, 4}, [](const Coordinates& at) {
    return Coordinates{at[1] % 2 * 2 + at[2] % 2, at[1] / 2, at[2] / 2};
  });
  OperatorCase("nn.PixelShuffle").Param("upscale_factor", "2").Input(x).ExpectOutputs({big});
}

TEST(PixelShuffle, RefusesWhatDoesNotDivide) {
  const Tensor x = RandomTensor(DType::kF32, {1, 6, 2, 3});
  OperatorCase("nn.PixelShuffle")
      .Param("upscale_factor", "2")
      .Input(x)
      .ExpectError(ErrorCode::kInvalidArgument, "no multiple of 4");
  OperatorCase("nn.PixelUnshuffle")
      .Param("downscale_factor", "2")
      .Input(x)
      .ExpectError(ErrorCode::kInvalidArgument, "axis 3 of shape (1,6,2,3) is no multiple of 2");
  OperatorCase("nn.PixelShuffle")
      .Param("upscale_factor", "2147483647")
      .Input(x)
      .ExpectError(ErrorCode::kInvalidArgument, "no multiple");
  OperatorCase("nn.PixelUnshuffle")
      .Param("downscale_factor", "-1")
      .Input(x)
      .ExpectError(ErrorCode::kInvalidModel, "at least 1");
}

}  // namespace
}  // namespace oort::testing
