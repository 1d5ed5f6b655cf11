// SPDX-License-Identifier: MIT
#include "layers/layout/nhwc_reference.h"

namespace oort::testing {
namespace {

TEST(NhwcShuffle, IsLikeTheShuffles) {
  const Tensor x = RandomTensor(DType::kF32, {2, 36, 3, 5});
  for (const char* groups : {"1", "2", "3", "36"}) {
    ExpectLikeChannelsFirst("ChannelShuffle", "nn.ChannelShuffle", {{"groups", groups}}, {x});
  }
  ExpectLikeChannelsFirst("ChannelShuffle", "nn.ChannelShuffle", {{"groups", "2"}},
                          {RandomTensor(DType::kF32, {3, 4, 5})});
  for (const char* factor : {"1", "2", "3"}) {
    ExpectLikeChannelsFirst("PixelShuffle", "nn.PixelShuffle", {{"upscale_factor", factor}}, {x});
    ExpectLikeChannelsFirst("PixelUnshuffle", "nn.PixelUnshuffle", {{"downscale_factor", factor}},
                            {RandomTensor(DType::kF32, {2, 5, 12, 18})});
  }
  ExpectLikeChannelsFirst("PixelShuffle", "nn.PixelShuffle", {{"upscale_factor", "2"}},
                          {RandomTensor(DType::kF32, {8, 3, 5})});
  CaseOf("nhwc.PixelShuffle", {{"upscale_factor", "4"}}, {WithNhwc(x)})
      .ExpectError(ErrorCode::kInvalidArgument, "is no multiple of 16");
  CaseOf("nhwc.ChannelShuffle", {{"groups", "5"}}, {WithNhwc(x)})
      .ExpectError(ErrorCode::kInvalidArgument, "axis 3 of shape (2,3,5,36)");
  CaseOf("nhwc.PixelUnshuffle", {{"downscale_factor", "2"}}, {RandomTensor(DType::kF32, {4, 4})})
      .ExpectError(ErrorCode::kInvalidArgument, "rank of at least 3");
}

}  // namespace
}  // namespace oort::testing
