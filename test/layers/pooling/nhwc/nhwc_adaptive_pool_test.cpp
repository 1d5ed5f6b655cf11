// SPDX-License-Identifier: MIT
#include <cmath>

#include "layers/layout/nhwc_reference.h"

namespace oort::testing {
namespace {

TEST(NhwcAdaptivePool, IsLikeAdaptivePool2d) {
  for (const Shape& shape : OddImages(7, 10)) {
    const Tensor x = RandomTensor(DType::kF32, shape);
    for (const char* size : {"(1,1)", "(3,3)", "(7,10)", "(9,4)", "(None,2)", "1"}) {
      ExpectLikeChannelsFirst("AdaptiveAvgPool2d", "nn.AdaptiveAvgPool2d", {{"output_size", size}},
                              {x});
      ExpectLikeChannelsFirst("AdaptiveMaxPool2d", "nn.AdaptiveMaxPool2d", {{"output_size", size}},
                              {x});
    }
  }
}

TEST(NhwcAdaptivePool, SharesChannelsOut) {
  const Tensor x = RandomTensor(DType::kF32, {2, 515, 29, 31});
  ExpectLikeChannelsFirst("AdaptiveAvgPool2d", "nn.AdaptiveAvgPool2d", {{"output_size", "1"}}, {x});
}

}  // namespace
}  // namespace oort::testing
