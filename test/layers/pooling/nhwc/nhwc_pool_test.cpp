// SPDX-License-Identifier: MIT
#include <cmath>

#include "layers/layout/nhwc_reference.h"

namespace oort::testing {
namespace {

const std::vector<NamedParams>& NhwcPoolWindows() {
  static const std::vector<NamedParams> windows = {
      {{"kernel_size", "(3,3)"}, {"stride", "(2,2)"}, {"padding", "(1,1)"}},
      {{"kernel_size", "(2,2)"}, {"stride", "(2,2)"}},
      {{"kernel_size", "(3,2)"}, {"stride", "(1,3)"}, {"padding", "(1,0)"}},
      {{"kernel_size", "(3,3)"}, {"stride", "(2,2)"}, {"ceil_mode", "True"}},
      {{"kernel_size", "(5,5)"}, {"stride", "(1,1)"}, {"padding", "(2,2)"}},
      {{"kernel_size", "(4,3)"}, {"stride", "(3,2)"}, {"padding", "(2,1)"}, {"ceil_mode", "True"}},
  };
  return windows;
}

TEST(NhwcMaxPool, IsLikeMaxPool2d) {
  for (const Shape& shape : OddImages(7, 10)) {
    const Tensor x = RandomTensor(DType::kF32, shape);
    for (const NamedParams& window : NhwcPoolWindows()) {
      ExpectLikeChannelsFirst("MaxPool2d", "nn.MaxPool2d", window, {x});
    }
  }
}

TEST(NhwcMaxPool, TakesDilationAndWindowsWithoutPixels) {
  const Tensor x = RandomTensor(DType::kF32, {2, 5, 9, 8});
  for (const char* dilation : {"(2,2)", "(1,3)", "(4,1)"}) {
    ExpectLikeChannelsFirst(
        "MaxPool2d", "nn.MaxPool2d",
        {{"kernel_size", "(3,3)"}, {"stride", "1"}, {"padding", "1"}, {"dilation", dilation}}, {x});
  }
  ExpectLikeChannelsFirst(
      "MaxPool2d", "nn.MaxPool2d",
      {{"kernel_size", "(2,2)"}, {"stride", "1"}, {"padding", "1"}, {"dilation", "(2,2)"}},
      {RandomTensor(DType::kF32, {1, 3, 1, 1})});
}

TEST(NhwcMaxPool, LetsNanWin) {
  Tensor x = RandomTensor(DType::kF32, {1, 6, 5, 5});
  x.data<float>()[2 * 25 + 12] = NAN;
  ExpectLikeChannelsFirst("MaxPool2d", "nn.MaxPool2d",
                          {{"kernel_size", "3"}, {"stride", "2"}, {"padding", "1"}}, {x});
}

TEST(NhwcAvgPool, IsLikeAvgPool2d) {
  for (const Shape& shape : OddImages(7, 10)) {
    const Tensor x = RandomTensor(DType::kF32, shape);
    for (NamedParams window : NhwcPoolWindows()) {
      ExpectLikeChannelsFirst("AvgPool2d", "nn.AvgPool2d", window, {x});
      window.emplace_back("count_include_pad", "False");
      ExpectLikeChannelsFirst("AvgPool2d", "nn.AvgPool2d", window, {x});
    }
  }
}

TEST(NhwcAvgPool, TakesADivisor) {
  const Tensor x = RandomTensor(DType::kF32, {1, 5, 6, 6});
  ExpectLikeChannelsFirst("AvgPool2d", "nn.AvgPool2d",
                          {{"kernel_size", "3"}, {"padding", "1"}, {"divisor_override", "7"}}, {x});
  CaseOf("nhwc.AvgPool2d", {{"kernel_size", "3"}, {"divisor_override", "0"}}, {x})
      .ExpectError(ErrorCode::kInvalidArgument, "divisor_override must not be zero");
}

TEST(NhwcPool, RefusesWhatIsNoImage) {
  const Tensor matrix = RandomTensor(DType::kF32, {4, 4});
  for (const char* type : {"nhwc.MaxPool2d", "nhwc.AvgPool2d"}) {
    CaseOf(type, {{"kernel_size", "2"}}, {matrix})
        .ExpectError(ErrorCode::kInvalidArgument, "rank 3 or 4");
    CaseOf(type, {{"kernel_size", "9"}}, {RandomTensor(DType::kF32, {1, 4, 4, 2})})
        .ExpectError(ErrorCode::kInvalidArgument, "no window fits");
    CaseOf(type, {{"kernel_size", "2"}}, {RandomTensor(DType::kI64, {1, 4, 4, 2})})
        .ExpectError(ErrorCode::kInvalidArgument, "i64");
  }
  for (const char* type : {"nhwc.AdaptiveAvgPool2d", "nhwc.AdaptiveMaxPool2d"}) {
    CaseOf(type, {{"output_size", "1"}}, {matrix})
        .ExpectError(ErrorCode::kInvalidArgument, "rank 3 or 4");
    CaseOf(type, {{"output_size", "(1,-2)"}}, {RandomTensor(DType::kF32, {1, 4, 4, 2})})
        .ExpectError(ErrorCode::kInvalidArgument, "negative");
  }
  for (const char* type : {"nhwc.MaxPool2d", "nhwc.AdaptiveMaxPool2d"}) {
    const char* size = std::string(type).ends_with(".MaxPool2d") ? "kernel_size" : "output_size";
    CaseOf(type, {{size, "2"}, {"return_indices", "True"}},
           {RandomTensor(DType::kF32, {1, 4, 4, 2})})
        .ExpectError(ErrorCode::kUnsupported, "return_indices");
  }
}

}  // namespace
}  // namespace oort::testing
