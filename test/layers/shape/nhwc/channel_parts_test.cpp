// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "oort/testing.h"

namespace oort::testing {
namespace {

OperatorCase Put(int64_t to, int64_t width) {
  return OperatorCase("nhwc.put")
      .Param("to", std::to_string(to))
      .Param("width", std::to_string(width));
}

TEST(NhwcPut, WritesItsChannelsAmongOthers) {
  for (DType dtype : {DType::kF32, DType::kF16}) {
    const Tensor x = RandomTensor(dtype, {2, 3, 4, 5}, 1),
                 into = RandomTensor(dtype, {2, 3, 4, 9}, 2);
    Tensor want = into.To(DType::kF32);
    const Tensor parts = x.To(DType::kF32);
    for (int64_t i = 0; i < parts.elements(); ++i) {
      want.data<float>()[i / 5 * 9 + 3 + i % 5] = parts.data<float>()[i];
    }
    Put(3, 9).Input(x, "input").Input(into, "into").ExpectOutputs({want.To(dtype)}, {0, 0});
  }
}

TEST(NhwcPut, RefusesWhatDoesNotFit) {
  const Tensor x = RandomTensor(DType::kF32, {2, 2, 5});
  Put(5, 9).Input(x, "input").ExpectError(ErrorCode::kInvalidArgument, "at most 4 channels");
  Put(3, 9)
      .Input(x, "input")
      .Input(RandomTensor(DType::kF32, {2, 2, 8}), "into")
      .ExpectError(ErrorCode::kInvalidArgument, "of shape (2,2,9)");
  Put(3, 9)
      .Input(x, "input")
      .Input(RandomTensor(DType::kF16, {2, 2, 9}), "into")
      .ExpectError(ErrorCode::kInvalidArgument, "one dtype");
  Put(3, 9).Param("rank", "4").Input(x, "input").ExpectError(ErrorCode::kInvalidArgument, "rank 4");
}

TEST(NhwcInterleave, TakesChannelsInTurn) {
  const Tensor a = Tensor::From<float>({1, 2, 3, 4}, {2, 1, 2});
  const Tensor b = Tensor::From<float>({5, 6, 7, 8}, {2, 1, 2});
  const Tensor want = Tensor::From<float>({1, 5, 2, 6, 3, 7, 4, 8}, {2, 1, 4});
  OperatorCase("nhwc.interleave").Input(a).Input(b).ExpectOutputs({want});
  const Tensor wide =
      Tensor::From<float>({9, 1, 2, 9, 3, 4}, {2, 1, 3});  // a from its second channel on
  OperatorCase("nhwc.interleave")
      .Param("from", "1")
      .Param("of", "3")
      .Input(wide)
      .Input(b)
      .ExpectOutputs({want});
  OperatorCase("nhwc.interleave")
      .Input(wide)
      .Input(b)
      .ExpectError(ErrorCode::kInvalidArgument, "the same shape");
}

}  // namespace
}  // namespace oort::testing
