// SPDX-License-Identifier: MIT
// Functions, products and numbers that pnnx leaves as ATen operators. Expected values are torch's.
#include <gtest/gtest.h>

#include <cmath>

#include "layers/aten/aten_form.h"

namespace oort::testing {
namespace {

Tensor Row(std::initializer_list<double> values) {
  return Tensor::From<double>(values, {static_cast<int64_t>(values.size())});
}

TEST(AtenFunction, SpecialFunctionsKeepTheirDigits) {
  const auto expect = [](const char* type, double x, double y) {
    OperatorCase(type).Input(Row({x})).ExpectOutputs({Row({y})}, {1e-14, 1e-11});
  };
  expect("aten::digamma", 1, -0.5772156649015329);
  expect("aten::digamma", 0, -INFINITY);
  expect("aten::digamma", -2, NAN);
  expect("aten::erfinv", 0.5, 0.4769362762044699);
  expect("aten::erfinv", 1, INFINITY);
  expect("aten::erfinv", 1.5, NAN);
  expect("aten::i0", 3, 4.880792585865024);
  expect("aten::special_i1", -3, -3.953370217402609);
  expect("aten::special_i0e", 100, 0.03994437929909668);
  expect("aten::special_erfcx", 30, 0.018795888861416751);
  expect("aten::special_ndtri", 0.975, 1.959963984540054);
  expect("aten::special_log_ndtr", -20, -203.91715537109727);
  expect("aten::sinc", 0, 1);
  OperatorCase("aten::polygamma")
      .Param("n", "1")
      .Input(Row({1}))
      .ExpectOutputs({Row({1.6449340668482264})}, {1e-14, 1e-12});
  OperatorCase("aten::polygamma")
      .Param("n", "-1")
      .Input(Row({1}))
      .ExpectError(ErrorCode::kUnsupported, "from 0 to 170");
}

TEST(AtenFunction, DividesAsTheModeSays) {
  for (DType dtype : {DType::kF32, DType::kF64, DType::kI32, DType::kI64}) {
    const Tensor a = Row({7, -7, 7, -7}).To(dtype), b = Row({2, 2, -2, -2}).To(dtype);
    const auto divide = [&](const char* mode) {
      return OperatorCase("torch.div").Param("rounding_mode", mode).Input(a).Input(b);
    };
    divide("floor").ExpectOutputs({Row({3, -4, -4, 3}).To(dtype)});
    divide("trunc").ExpectOutputs({Row({3, -3, -3, 3}).To(dtype)});
    divide("up").ExpectError(ErrorCode::kInvalidModel, "must be one of");
  }
}

TEST(AtenFunction, ReplacesWhatIsNoNumber) {
  for (DType dtype : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16}) {
    const Tensor x = Row({NAN, INFINITY, -INFINITY, 1}).To(dtype);
    OperatorCase("aten::nan_to_num")
        .Param("nan", "2.0")
        .Param("posinf", "3.0")
        .Param("neginf", "-3.0")
        .Input(x)
        .ExpectOutputs({Row({2, 3, -3, 1}).To(dtype)});
  }
  OperatorCase("aten::nan_to_num")
      .Input(Row({INFINITY}).To(DType::kF16))
      .ExpectOutputs({Row({65504}).To(DType::kF16)});
}

TEST(AtenFunction, ReadsNumbersFromTensors) {
  // A number that an operator reads multiplies a tensor.
  const Tensor x = Row({2.75});
  for (const auto& [type, factor] : {std::pair("aten::item", 2.75),
                                     {"aten::Int", 2.0},
                                     {"aten::Float", 2.75},
                                     {"aten::numel", 1.0}}) {
    Graph graph;
    const int in = graph.AddOperand("in"), number = graph.AddOperand("number");
    const int out = graph.AddOperand("out");
    graph.AddOperator({.type = "pnnx.Input", .name = "pnnx_input_0", .outputs = {in}});
    graph.AddOperator({.type = type, .name = "read", .inputs = {in}, .outputs = {number}});
    graph.AddOperator({.type = "pnnx.Expression",
                       .name = "times",
                       .inputs = {in, number},
                       .outputs = {out},
                       .params = {{"expr", Parameter("mul(@0,@1)")}}});
    graph.AddOperator({.type = "pnnx.Output", .name = "pnnx_output_0", .inputs = {out}});
    ExpectNear(Session(RuntimeGraph::Build(std::move(graph))).Forward({x})[0],
               Row({2.75 * factor}));
  }
  OperatorCase("aten::item")
      .Input(Row({1, 2}))
      .ExpectError(ErrorCode::kInvalidArgument, "expected one element");
}

}  // namespace
}  // namespace oort::testing
