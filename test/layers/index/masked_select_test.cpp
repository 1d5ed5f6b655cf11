// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "layers/shape/moved_elements.h"

namespace oort::testing {
namespace {

OperatorCase Select(const Tensor& x, const Tensor& mask) {
  return OperatorCase("torch.masked_select").Input(x, "input").Input(mask, "mask");
}

TEST(MaskedSelect, KeepsWhatTheMaskMarks) {
  for (DType dtype : MovedDTypes()) {
    const Tensor x = RandomTensor(dtype, {2, 3});
    const Tensor mask = Tensor::From<bool>({false, true, true, false, false, true}, {2, 3});
    const Coordinates kept[] = {{0, 1}, {0, 2}, {1, 2}};
    Select(x, mask).ExpectOutputs(
        {Moved(x, {3}, [&](const Coordinates& at) { return kept[at[0]]; })});
    Select(x, Tensor::Zeros(DType::kBool, {2, 3})).ExpectOutputs({Tensor(dtype, {0})});
  }
}

TEST(MaskedSelect, Broadcasts) {
  const Tensor x = Tensor::From<float>({1, 2, 3}, {3});
  Select(x, Tensor::From<bool>({true, false}, {2, 1}))
      .ExpectOutputs({Tensor::From<float>({1, 2, 3}, {3})});
  Select(Tensor::From<float>({1, 2}, {2, 1}), Tensor::From<bool>({true, false, true}, {3}))
      .ExpectOutputs({Tensor::From<float>({1, 1, 2, 2}, {4})});
  Select(Tensor::Scalar(5.0f), Tensor::Scalar(true)).ExpectOutputs({Tensor::From<float>({5}, {1})});
}

TEST(MaskedSelect, RefusesWhatDoesNotFit) {
  Select(RandomTensor(DType::kF32, {3}), RandomTensor(DType::kBool, {2}))
      .ExpectError(ErrorCode::kInvalidArgument, "do not broadcast");
  Select(RandomTensor(DType::kF32, {3}), RandomTensor(DType::kF32, {3}))
      .ExpectError(ErrorCode::kInvalidArgument, "dtype f32");
}

}  // namespace
}  // namespace oort::testing
