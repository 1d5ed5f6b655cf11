// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "moved_elements.h"

namespace oort::testing {
namespace {

using Complex = std::complex<float>;

TEST(ViewAs, PairsAreComplexNumbers) {
  const Tensor pairs = Tensor::From<float>({1, 2, 3, -4, 5, 6}, {3, 2});
  const Tensor numbers = Tensor::From<Complex>({{1, 2}, {3, -4}, {5, 6}}, {3});
  OperatorCase("torch.view_as_complex").Input(pairs).ExpectOutputs({numbers});
  OperatorCase("torch.view_as_real").Input(numbers).ExpectOutputs({pairs});
  OperatorCase("torch.view_as_complex")
      .Input(pairs.To(DType::kF64))
      .ExpectOutputs({numbers.To(DType::kC128)});
  OperatorCase("torch.view_as_real")
      .Input(numbers.To(DType::kC128))
      .ExpectOutputs({pairs.To(DType::kF64)});
  OperatorCase("torch.view_as_complex")
      .Input(Tensor::From<float>({1, 2}, {2}))
      .ExpectOutputs({Tensor::From<Complex>({{1, 2}}, {})});
}

TEST(ViewAs, HalfPairsMakeComplexHalves) {
  const Tensor pairs = Tensor::From<float>({1, 2, 3, 4}, {2, 2}).To(DType::kF16);
  const std::vector<Tensor> numbers = OperatorCase("torch.view_as_complex").Input(pairs).Run();
  ASSERT_EQ(numbers[0].ToString(), "(2)c32");
  OperatorCase("torch.view_as_real").Input(numbers[0]).ExpectOutputs({pairs});
}

TEST(ViewAs, RefusesWhatIsNoPair) {
  OperatorCase("torch.view_as_complex")
      .Input(RandomTensor(DType::kF32, {2, 3}))
      .ExpectError(ErrorCode::kInvalidArgument, "last axis of 2");
  OperatorCase("torch.view_as_complex")
      .Input(RandomTensor(DType::kF32, {}))
      .ExpectError(ErrorCode::kInvalidArgument, "last axis of 2");
  OperatorCase("torch.view_as_complex")
      .Input(RandomTensor(DType::kI64, {2}))
      .ExpectError(ErrorCode::kInvalidArgument, "dtype i64");
  OperatorCase("torch.view_as_real")
      .Input(RandomTensor(DType::kF32, {2}))
      .ExpectError(ErrorCode::kInvalidArgument, "dtype f32");
}

}  // namespace
}  // namespace oort::testing
