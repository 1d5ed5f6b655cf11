// SPDX-License-Identifier: MIT
// Reductions and scans that pnnx leaves as ATen operators. Expected values are torch's.
#include <gtest/gtest.h>

#include <cmath>

#include "layers/aten/aten_form.h"
#include "layers/short_tensors.h"

namespace oort::testing {
namespace {

TEST(AtenOrder, FindsMediansInEveryDType) {
  for (DType dtype :
       {DType::kF32, DType::kF64, DType::kF16, DType::kBF16, DType::kI32, DType::kU8}) {
    const Tensor x = Tensor::From<float>({4, 1, 3, 2, 9, 7, 8, 7}, {2, 4}).To(dtype);
    OperatorCase("aten::median").Input(x).ExpectOutputs({Tensor::Scalar<float>(4).To(dtype)});
    OperatorCase("aten::median")
        .Param("dim", "1")
        .Input(x)
        .Outputs(2)
        .ExpectOutputs({Vector({2, 7}).To(dtype), Places({3, 3})});
    OperatorCase("aten::kthvalue")
        .Param("k", "3")
        .Param("keepdim", "True")
        .Input(x)
        .Outputs(2)
        .ExpectOutputs(
            {Tensor::From<float>({3, 8}, {2, 1}).To(dtype), Tensor::From<int64_t>({2, 2}, {2, 1})});
    OperatorCase("aten::mode")
        .Input(x)
        .Outputs(2)
        .ExpectOutputs({Vector({1, 7}).To(dtype), Places({1, 3})});
  }
}

TEST(AtenOrder, TreatsNanAsTorchDoes) {
  const Tensor x = Vector({3, NAN, 1, 2});
  OperatorCase("aten::median").Input(x).ExpectOutputs({Tensor::Scalar<float>(NAN)});
  OperatorCase("aten::nanmedian").Input(x).ExpectOutputs({Tensor::Scalar<float>(2)});
  OperatorCase("aten::quantile").Input(x).Input(0.5).ExpectOutputs({Tensor::Scalar<float>(NAN)});
  OperatorCase("aten::nanquantile")
      .Input(x)
      .Input(Vector({0, 0.25, 1}))
      .ExpectOutputs({Vector({1, 1.5, 3})});
  OperatorCase("aten::quantile")
      .Input(x)
      .Input(1.5)
      .ExpectError(ErrorCode::kInvalidArgument, "from 0 to 1");
  OperatorCase("aten::quantile")
      .Input(Tensor(DType::kF32, {0}))
      .Input(0.5)
      .ExpectError(ErrorCode::kInvalidArgument, "with elements");
  OperatorCase("aten::kthvalue")
      .Param("k", "5")
      .Input(x)
      .Outputs(2)
      .ExpectError(ErrorCode::kInvalidArgument, "no element number 5");
}

}  // namespace
}  // namespace oort::testing
