// SPDX-License-Identifier: MIT
// Indexing that pnnx leaves as ATen operators. Expected values are torch's.
#include <gtest/gtest.h>

#include <cmath>

#include "layers/short_tensors.h"

namespace oort::testing {
namespace {

OperatorCase Scatter(const Value& src, const char* reduce) {
  OperatorCase test("torch.scatter");
  test.Param("dim", "0").Param("reduce", reduce);
  test.Input(Floats({1, 2, 3, 4}, {2, 2}), "input").Input(Ints({1, 1, 0, 1}, {2, 2}), "index");
  return test.Input(src, "src");
}

TEST(AtenScatter, WritesAndCombines) {
  const Tensor src = Floats({10, 20, 30, 40}, {2, 2});
  Scatter(src, "None").ExpectOutputs({Floats({30, 2, 10, 40}, {2, 2})});
  Scatter(src, "add").ExpectOutputs({Floats({31, 2, 13, 64}, {2, 2})});
  Scatter(src, "multiply").ExpectOutputs({Floats({30, 2, 30, 3200}, {2, 2})});
  Scatter(Value(0.5), "None").ExpectOutputs({Floats({0.5, 2, 0.5, 0.5}, {2, 2})});
  Scatter(src.To(DType::kF64), "None").ExpectError(ErrorCode::kInvalidArgument, "a source");
  OperatorCase("aten::scatter")
      .Param("dim", "0")
      .Input(Floats({1, 2}, {2}), "input")
      .Input(Ints({2}, {1}), "index")
      .Input(Value(1.0), "src")
      .ExpectError(ErrorCode::kInvalidArgument, "out of range");
  OperatorCase("aten::scatter")
      .Param("dim", "0")
      .Input(Floats({1, 2}, {2}), "input")
      .Input(Ints({0, 1, 0, 1}, {2, 2}), "index")
      .Input(Value(1.0), "src")
      .ExpectError(ErrorCode::kInvalidArgument, "does not fit");
}

TEST(AtenScatter, ReducesEveryDType) {
  for (DType dtype :
       {DType::kF32, DType::kF64, DType::kF16, DType::kBF16, DType::kI64, DType::kU8}) {
    const auto reduce = [&](const char* how, const char* self) {
      return OperatorCase("aten::scatter_reduce")
          .Param("dim", "0")
          .Param("reduce", how)
          .Param("include_self", self)
          .Input(Floats({2, 8, 5}, {3}).To(dtype), "input")
          .Input(Ints({0, 0, 1}, {3}), "index")
          .Input(Floats({3, 4, 6}, {3}).To(dtype), "src");
    };
    const auto expected = [&](std::initializer_list<float> values) {
      return std::vector<Tensor>{Floats(values, {3}).To(dtype)};
    };
    reduce("sum", "True").ExpectOutputs(expected({9, 14, 5}));
    reduce("sum", "False").ExpectOutputs(expected({7, 6, 5}));
    reduce("prod", "True").ExpectOutputs(expected({24, 48, 5}));
    reduce("mean", "True").ExpectOutputs(expected({3, 7, 5}));
    reduce("amax", "True").ExpectOutputs(expected({4, 8, 5}));
    reduce("amax", "False").ExpectOutputs(expected({4, 6, 5}));
    reduce("amin", "True").ExpectOutputs(expected({2, 6, 5}));
    reduce("median", "True").ExpectError(ErrorCode::kInvalidModel, "must be one of");
  }
}

}  // namespace
}  // namespace oort::testing
