// SPDX-License-Identifier: MIT
// Reductions and scans that pnnx leaves as ATen operators. Expected values are torch's.
#include <gtest/gtest.h>

#include <cmath>

#include "aten_form.h"

namespace oort::testing {
namespace {

Tensor Vector(std::initializer_list<float> values) {
  return Tensor::From<float>(values, {static_cast<int64_t>(values.size())});
}
Tensor Places(std::initializer_list<int64_t> values) {
  return Tensor::From<int64_t>(values, {static_cast<int64_t>(values.size())});
}

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

TEST(AtenScan, KeepsTheBestSoFar) {
  const Tensor x = Vector({1, 3, 3, NAN, 5});
  OperatorCase("aten::cummax")
      .Param("dim", "0")
      .Input(x)
      .Outputs(2)
      .ExpectOutputs({Vector({1, 3, 3, NAN, NAN}), Places({0, 1, 2, 3, 3})});
  OperatorCase("aten::cummin")
      .Param("dim", "0")
      .Input(Vector({2, 3, 1, 1}))
      .Outputs(2)
      .ExpectOutputs({Vector({2, 2, 1, 1}), Places({0, 0, 2, 3})});
  OperatorCase("aten::logcumsumexp")
      .Param("dim", "0")
      .Input(Vector({-INFINITY, 0, 0, 1000, INFINITY, 1}))
      .ExpectOutputs({Vector({-INFINITY, 0, 0.6931472f, 1000, INFINITY, INFINITY})});
  OperatorCase("aten::cummax")
      .Param("dim", "1")
      .Input(x)
      .Outputs(2)
      .ExpectError(ErrorCode::kInvalidArgument, "");
}

TEST(AtenSort, TakesTheStableForm) {
  const Tensor x = Vector({2, 3, 1});
  const std::vector<Tensor> sorted = RunAten("aten::sort", {x}, {"True", "0", "True"}, 2);
  ExpectNear(sorted[0], Vector({3, 2, 1}));
  ExpectNear(sorted[1], Places({1, 0, 2}));
  ExpectNear(RunAten("aten::argsort", {x}, {"False", "0", "False"})[0], Places({2, 0, 1}));
}

TEST(AtenReduction, DifferencesOfNeighbours) {
  const Tensor x = Vector({1, 4, 9, 16});
  OperatorCase("aten::diff").Input(x).ExpectOutputs({Vector({3, 5, 7})});
  OperatorCase("aten::diff").Param("n", "2").Input(x).ExpectOutputs({Vector({2, 2})});
  OperatorCase("aten::diff").Param("n", "9").Input(x).ExpectOutputs({Vector({})});
  OperatorCase("aten::diff")
      .Input(x, "input")
      .Input(Vector({0, 0}), "prepend")
      .Input(Vector({20}), "append")
      .ExpectOutputs({Vector({0, 1, 3, 5, 7, 4})});
  OperatorCase("aten::diff")
      .Input(Tensor::From<bool>({true, true, false}, {3}))
      .ExpectOutputs({Tensor::From<bool>({false, true}, {2})});
  OperatorCase("aten::diff")
      .Input(Tensor::Scalar<float>(1))
      .ExpectError(ErrorCode::kInvalidArgument, "at least 1");
}

TEST(AtenReduction, CountsAndSumsWithoutNan) {
  const Tensor x = Tensor::From<float>({0, NAN, 2, 4}, {2, 2});
  OperatorCase("aten::count_nonzero").Input(x).ExpectOutputs({Tensor::Scalar<int64_t>(3)});
  OperatorCase("aten::count_nonzero").Param("dim", "1").Input(x).ExpectOutputs({Places({1, 2})});
  OperatorCase("aten::nansum").Param("dim", "(1)").Input(x).ExpectOutputs({Vector({0, 6})});
  OperatorCase("aten::nanmean").Input(x).ExpectOutputs({Tensor::Scalar<float>(2)});
  OperatorCase("aten::aminmax")
      .Param("dim", "1")
      .Input(Tensor::From<float>({0, 1, 2, 4}, {2, 2}))
      .Outputs(2)
      .ExpectOutputs({Vector({0, 2}), Vector({1, 4})});
  OperatorCase("aten::trace")
      .Input(RangeTensor(DType::kI64, {2, 3}))
      .ExpectOutputs({Tensor::Scalar<int64_t>(4)});
  OperatorCase("aten::trace")
      .Input(x.Reshaped({4}))
      .ExpectError(ErrorCode::kInvalidArgument, "expected a matrix");
  OperatorCase("aten::msort").Input(Vector({2, 3, 1})).ExpectOutputs({Vector({1, 2, 3})});
}

TEST(AtenReduction, DistancesAndNorms) {
  const Tensor x = Tensor::From<float>({3, 4, 0.3f, 0.4f}, {2, 2});
  OperatorCase("aten::renorm")
      .Param("p", "2")
      .Param("dim", "0")
      .Param("maxnorm", "1.0")
      .Input(x)
      .ExpectOutputs({Tensor::From<float>({0.6f, 0.8f, 0.3f, 0.4f}, {2, 2})});
  OperatorCase("aten::cosine_similarity")
      .Input(x)
      .Input(Tensor::From<float>({4, 3}, {1, 2}))
      .ExpectOutputs({Vector({0.96f, 0.96f})});
  for (const char* p : {"0.0", "1.0", "2.0", "inf"}) {
    const double expected = p[0] == '0' ? 2 : p[0] == '1' ? 7 : p[0] == '2' ? 5 : 4;
    OperatorCase("aten::cdist")
        .Param("p", p)
        .Input(x)
        .Input(Tensor::Zeros(DType::kF32, {1, 2}))
        .ExpectOutputs({Tensor::From<float>(
            {static_cast<float>(expected), static_cast<float>(p[0] == '0' ? 2 : expected / 10)},
            {2, 1})});
  }
  OperatorCase("aten::cdist")
      .Input(x)
      .Input(RandomTensor(DType::kF32, {2, 3}))
      .ExpectError(ErrorCode::kInvalidArgument, "rows of one length");
}

/// Many rows go through a matrix product, few are compared one by one.
TEST(AtenReduction, DistancesOfManyRowsAreTheSame) {
  const Tensor a = RandomTensor(DType::kF64, {40, 7}, 1), b = RandomTensor(DType::kF64, {30, 7}, 2);
  Tensor expected(DType::kF64, {40, 30});
  for (int64_t i = 0; i < 40; ++i) {
    for (int64_t j = 0; j < 30; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < 7; ++k) {
        sum += std::pow(a.data<double>()[i * 7 + k] - b.data<double>()[j * 7 + k], 2);
      }
      expected.data<double>()[i * 30 + j] = std::sqrt(sum);
    }
  }
  OperatorCase("aten::cdist").Input(a).Input(b).ExpectOutputs({expected}, {1e-7, 1e-7});
}

}  // namespace
}  // namespace oort::testing
