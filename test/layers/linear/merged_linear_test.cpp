// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "oort/testing.h"

namespace oort::testing {
namespace {

OperatorCase Merged(const char* counts, const Tensor& weight) {
  return OperatorCase("oort.MergedLinear")
      .Param("out_features", counts)
      .Attribute("weight", weight);
}

/// nn.Linear with some rows of the weight.
Tensor Alone(const Tensor& x, const Tensor& weight, const Tensor& bias, int64_t begin,
             int64_t end) {
  return OperatorCase("nn.Linear")
      .Param("in_features", std::to_string(weight.dim(1)))
      .Param("out_features", std::to_string(end - begin))
      .Param("bias", "True")
      .Attribute("weight", weight.Rows(begin, end).Clone())
      .Attribute("bias", bias.Rows(begin, end).Clone())
      .Input(x)
      .Run()[0];
}

TEST(MergedLinear, GivesWhatTheProductsGiveAlone) {
  const Tensor weight = RandomTensor(DType::kF32, {50, 37}, 1),
               bias = RandomTensor(DType::kF32, {50}, 2);
  for (const Shape& shape :
       {Shape{37}, Shape{1, 37}, Shape{2, 7, 37}, Shape{65, 37}, Shape{0, 37}}) {
    SCOPED_TRACE(shape.ToString());
    const Tensor x = RandomTensor(DType::kF32, shape, 3);
    Merged("(16,1,33)", weight)
        .Attribute("bias", bias)
        .Input(x)
        .Outputs(3)
        .ExpectOutputs({Alone(x, weight, bias, 0, 16), Alone(x, weight, bias, 16, 17),
                        Alone(x, weight, bias, 17, 50)});
  }
}

TEST(MergedLinear, RefusesWhatDoesNotFit) {
  const Tensor weight = RandomTensor(DType::kF32, {5, 4}), x = RandomTensor(DType::kF32, {2, 4});
  const auto expect = [&](const char* counts, int outputs, const Tensor& input, ErrorCode code,
                          const char* text) {
    Merged(counts, weight).Input(input).Outputs(outputs).ExpectError(code, text);
  };
  expect("(2,2)", 2, x, ErrorCode::kInvalidModel, "weights of their sum");
  expect("(2,3)", 1, x, ErrorCode::kInvalidModel, "as many outputs");
  expect("(0,5)", 2, x, ErrorCode::kInvalidModel, "from 1 to the rows");
  expect("(2,3)", 2, RandomTensor(DType::kF32, {2, 5}), ErrorCode::kInvalidArgument,
         "last axis is 4");
}

}  // namespace
}  // namespace oort::testing
