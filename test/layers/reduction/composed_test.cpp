// SPDX-License-Identifier: MIT
// Reductions and scans that pnnx leaves as ATen operators. Expected values are torch's.
#include <gtest/gtest.h>

#include <cmath>

#include "layers/aten/aten_form.h"
#include "layers/short_tensors.h"

namespace oort::testing {
namespace {

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
