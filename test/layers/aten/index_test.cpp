// SPDX-License-Identifier: MIT
// Indexing that pnnx leaves as ATen operators. Expected values are torch's.
#include <gtest/gtest.h>

#include <cmath>

#include "oort/testing.h"

namespace oort::testing {
namespace {

Tensor Ints(std::initializer_list<int64_t> values, Shape shape) {
  return Tensor::From<int64_t>(values, shape);
}
Tensor Floats(std::initializer_list<float> values, Shape shape) {
  return Tensor::From<float>(values, shape);
}

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

TEST(AtenIndexWrite, AddsCopiesAndFills) {
  const Tensor x = Floats({1, 2, 3, 4, 5, 6}, {3, 2}), index = Ints({2, 0}, {2});
  const Tensor source = Floats({10, 20, 30, 40}, {2, 2});
  const auto write = [&](const char* type, const Value& value) {
    OperatorCase test(type);
    return test.Param("dim", "0").Input(x, "input").Input(index, "index").Input(value, "source");
  };
  write("aten::index_add", source).ExpectOutputs({Floats({31, 42, 3, 4, 15, 26}, {3, 2})});
  write("aten::index_add", source)
      .Param("alpha", "2")
      .ExpectOutputs({Floats({61, 82, 3, 4, 25, 46}, {3, 2})});
  write("aten::index_copy", source).ExpectOutputs({Floats({30, 40, 3, 4, 10, 20}, {3, 2})});
  write("aten::index_fill", 7).ExpectOutputs({Floats({7, 7, 3, 4, 7, 7}, {3, 2})});
  write("aten::index_reduce", source)
      .Param("reduce", "amin")
      .ExpectOutputs({Floats({1, 2, 3, 4, 5, 6}, {3, 2})});
  write("aten::index_add", Floats({1, 2}, {1, 2})).ExpectError(ErrorCode::kInvalidArgument, "fit");
  OperatorCase("aten::put")
      .Input(x)
      .Input(Ints({-1, 0}, {2}))
      .Input(Floats({8, 9}, {2}))
      .ExpectOutputs({Floats({9, 2, 3, 4, 5, 8}, {3, 2})});
  OperatorCase("aten::put")
      .Input(x)
      .Input(Ints({6}, {1}))
      .Input(Floats({8}, {1}))
      .ExpectError(ErrorCode::kInvalidArgument, "out of range");
}

TEST(AtenTake, ReadsFlatAndAlongAxes) {
  const Tensor x = Floats({1, 2, 3, 4, 5, 6}, {2, 3});
  OperatorCase("aten::take")
      .Input(x)
      .Input(Ints({5, -6}, {1, 2}))
      .ExpectOutputs({Floats({6, 1}, {1, 2})});
  OperatorCase("aten::take")
      .Input(x)
      .Input(Ints({6}, {1}))
      .ExpectError(ErrorCode::kInvalidArgument, "out of range");
  OperatorCase("aten::take_along_dim")
      .Param("dim", "1")
      .Input(x)
      .Input(Ints({2, 0}, {1, 2}))
      .ExpectOutputs({Floats({3, 1, 6, 4}, {2, 2})});
  OperatorCase("aten::take_along_dim")
      .Input(x)
      .Input(Ints({4, 0}, {2}))
      .ExpectOutputs({Floats({5, 1}, {2})});
  OperatorCase("aten::take_along_dim")
      .Param("dim", "1")
      .Input(x)
      .Input(Ints({0}, {1}))
      .ExpectError(ErrorCode::kInvalidArgument, "of rank 2");
}

TEST(AtenNonzero, FindsPlacesInEveryDType) {
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kI64, DType::kBool, DType::kC64}) {
    OperatorCase("aten::nonzero")
        .Input(Floats({0, 1, 0, 2, 0, 3}, {2, 3}).To(dtype))
        .ExpectOutputs({Ints({0, 1, 1, 0, 1, 2}, {3, 2})});
  }
  OperatorCase("aten::nonzero")
      .Input(Tensor::Scalar<float>(3))
      .ExpectOutputs({Tensor(DType::kI64, {1, 0})});
  OperatorCase("aten::argwhere")
      .Input(Tensor(DType::kF32, {0, 3}))
      .ExpectOutputs({Tensor(DType::kI64, {0, 2})});
  OperatorCase("aten::masked_scatter")
      .Input(Floats({1, 2, 3, 4}, {2, 2}))
      .Input(Tensor::From<bool>({true, false}, {2}))
      .Input(Floats({8, 9}, {2}))
      .ExpectOutputs({Floats({8, 2, 9, 4}, {2, 2})});
  OperatorCase("aten::masked_scatter")
      .Input(Floats({1, 2}, {2}))
      .Input(Tensor::From<bool>({true, true}, {2}))
      .Input(Floats({8}, {1}))
      .ExpectError(ErrorCode::kInvalidArgument, "true 2 times");
}

TEST(AtenCounts, CountsValues) {
  OperatorCase("aten::one_hot")
      .Param("num_classes", "3")
      .Input(Ints({2, 0}, {2}))
      .ExpectOutputs({Ints({0, 0, 1, 1, 0, 0}, {2, 3})});
  OperatorCase("aten::one_hot").Input(Ints({1}, {1})).ExpectOutputs({Ints({0, 1}, {1, 2})});
  OperatorCase("aten::one_hot")
      .Param("num_classes", "2")
      .Input(Ints({2}, {1}))
      .ExpectError(ErrorCode::kInvalidArgument, "out of range");
  OperatorCase("aten::one_hot")
      .Input(Ints({-2}, {1}))
      .ExpectError(ErrorCode::kInvalidArgument, "at least 0");
  OperatorCase("aten::one_hot")
      .Input(Tensor(DType::kI64, {0}))
      .ExpectError(ErrorCode::kInvalidArgument, "unknown");
  OperatorCase("aten::bincount")
      .Param("minlength", "4")
      .Input(Ints({1, 1, 0}, {3}))
      .ExpectOutputs({Ints({1, 2, 0, 0}, {4})});
  OperatorCase("aten::bincount")
      .Input(Ints({1, 1, 0}, {3}))
      .Input(Floats({0.5, 0.25, 2}, {3}))
      .ExpectOutputs({Floats({2, 0.75}, {2})});
  OperatorCase("aten::bincount")
      .Input(Ints({INT64_MAX}, {1}))
      .ExpectError(ErrorCode::kInvalidArgument, "overflows");
  OperatorCase("aten::histc")
      .Param("bins", "2")
      .Param("min", "0")
      .Param("max", "4")
      .Input(Floats({0, 2, 4, 5, NAN, 1}, {6}))
      .ExpectOutputs({Floats({2, 2}, {2})});
  OperatorCase("aten::histc")
      .Param("bins", "0")
      .Input(Floats({0}, {1}))
      .ExpectError(ErrorCode::kInvalidModel, "expected bins");
}

TEST(AtenSearch, LooksUpSortedSequences) {
  const Tensor sorted = Floats({1, 2, 2, 4}, {4}), x = Floats({0, 2, 3, 9, NAN}, {5});
  OperatorCase("aten::searchsorted")
      .Input(sorted)
      .Input(x)
      .ExpectOutputs({Ints({0, 1, 3, 4, 4}, {5})});
  OperatorCase("aten::bucketize")
      .Param("right", "True")
      .Param("out_int32", "True")
      .Input(x)
      .Input(sorted)
      .ExpectOutputs({Tensor::From<int32_t>({0, 3, 3, 4, 4}, {5})});
  OperatorCase("aten::searchsorted")
      .Param("side", "right")
      .Input(Ints({1, 3, 5, 7}, {2, 2}))
      .Input(Ints({3, 5}, {2, 1}))
      .ExpectOutputs({Ints({2, 1}, {2, 1})});
  OperatorCase("aten::searchsorted")
      .Input(Ints({1, 3, 5, 7}, {2, 2}))
      .Input(x)
      .ExpectError(ErrorCode::kInvalidArgument, "cannot be looked up");
  OperatorCase("aten::isin")
      .Input(Floats({1, NAN, 3}, {3}))
      .Input(Floats({3, NAN}, {2}))
      .ExpectOutputs({Tensor::From<bool>({false, false, true}, {3})});
}

TEST(AtenUnique, FindsDistinctElementsAndSlices) {
  OperatorCase("aten::_unique2")
      .Param("return_inverse", "True")
      .Param("return_counts", "True")
      .Input(Floats({3, 1, 3, 2}, {2, 2}))
      .Outputs(3)
      .ExpectOutputs({Floats({1, 2, 3}, {3}), Ints({2, 0, 2, 1}, {2, 2}), Ints({1, 1, 2}, {3})});
  OperatorCase("aten::unique_consecutive")
      .Input(Ints({1, 1, 2, 1}, {4}))
      .ExpectOutputs({Ints({1, 2, 1}, {3})});
  OperatorCase("aten::unique_dim")
      .Param("dim", "1")
      .Input(Ints({2, 1, 2, 5, 4, 5}, {2, 3}))
      .ExpectOutputs({Ints({1, 2, 4, 5}, {2, 2})});
  OperatorCase("aten::unique_dim")
      .Param("dim", "2")
      .Input(Ints({1, 2}, {1, 2}))
      .ExpectError(ErrorCode::kInvalidArgument, "");
  OperatorCase("aten::_unique2")
      .Input(Tensor(DType::kF32, {0}))
      .ExpectOutputs({Tensor(DType::kF32, {0})});
}

}  // namespace
}  // namespace oort::testing
