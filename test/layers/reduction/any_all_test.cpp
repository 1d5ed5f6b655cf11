// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "layers/aten/aten_form.h"
#include "reduction_reference.h"

namespace oort::testing {
namespace {

bool IsTrue(double value) { return value != 0; }
bool AnyOf(const Elements& all) {
  return std::any_of(all.values.begin(), all.values.end(), IsTrue);
}
bool AllOf(const Elements& all) {
  return std::all_of(all.values.begin(), all.values.end(), IsTrue);
}

TEST(AnyAll, OverAnyAxesAndDType) {
  for (DType dtype : {DType::kBool, DType::kF32, DType::kF64, DType::kF16, DType::kBF16, DType::kI8,
                      DType::kU8, DType::kI16, DType::kI32, DType::kI64}) {
    const DType result = dtype == DType::kU8 ? DType::kU8 : DType::kBool;
    for (const ReduceCase& c : ReduceCases()) {
      if (c.shape.elements() > 1000) continue;
      // Small integers: about one in three is zero.
      const Tensor x = RandomTensor(DType::kI64, c.shape, 3, 0, 2).To(dtype);
      const Tensor wide = x.To(DType::kF64);
      OperatorCase("torch.any")
          .Param("dim", c.dim())
          .Input(x)
          .ExpectOutputs({Reduced<bool>(wide, c.axes, false, AnyOf).To(result)});
      OperatorCase("torch.all")
          .Param("dim", c.dim())
          .Param("keepdim", "True")
          .Input(x)
          .ExpectOutputs({Reduced<bool>(wide, c.axes, true, AllOf).To(result)});
    }
  }
}

TEST(AnyAll, NanIsTrueAndComplexNumbersCount) {
  OperatorCase("torch.any")
      .Input(Tensor::From<float>({0, NAN}, {2}))
      .ExpectOutputs({Tensor::Scalar(true)});
  OperatorCase("torch.all")
      .Input(Tensor::From<std::complex<float>>({{0, 1}, {0, 0}}, {2}))
      .ExpectOutputs({Tensor::Scalar(false)});
}

TEST(AnyAll, TakesAtensForm) {
  const Tensor x = Tensor::From<bool>({true, false, false, false}, {2, 2});
  ExpectNear(RunAten("aten::any", {x}, {"1", "True"})[0],
             Tensor::From<bool>({true, false}, {2, 1}));
  ExpectNear(RunAten("aten::any", {x}, {"[0,1]", "False"})[0], Tensor::Scalar(true));
  ExpectNear(RunAten("aten::all", {x}, {})[0], Tensor::Scalar(false));
}

TEST(AnyAll, RefusesWrongAxes) {
  ExpectReductionErrors("torch.any");
  ExpectReductionErrors("torch.all");
}

}  // namespace
}  // namespace oort::testing
