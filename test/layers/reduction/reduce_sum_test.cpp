// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "layers/aten/aten_form.h"
#include "reduction_reference.h"

namespace oort::testing {
namespace {

double SumOf(const Elements& all) {
  return std::accumulate(all.values.begin(), all.values.end(), 0.0);
}
double MeanOf(const Elements& all) { return SumOf(all) / static_cast<double>(all.values.size()); }
double ProductOf(const Elements& all) {
  return std::accumulate(all.values.begin(), all.values.end(), 1.0, std::multiplies<>());
}

TEST(Sum, AddsOverAnyAxes) { ExpectReduction("torch.sum", {SumOf}); }
TEST(Mean, AveragesOverAnyAxes) { ExpectReduction("torch.mean", {MeanOf}); }
TEST(Prod, MultipliesOverAnyAxes) { ExpectReduction("torch.prod", {ProductOf}); }

TEST(Sum, RefusesWrongAxes) {
  for (const char* type : {"torch.sum", "torch.mean", "torch.prod"}) ExpectReductionErrors(type);
}

TEST(Sum, TakesAxesInAnyForm) {
  const Tensor x = RandomTensor(DType::kF64, {2, 3, 4});
  const auto expect = [&](const std::string& dim, const std::vector<int>& axes) {
    OperatorCase("torch.sum")
        .Param("dim", dim)
        .Input(x)
        .ExpectOutputs({Reduced<double>(x, axes, false, SumOf)});
  };
  expect("1", {1});
  expect("-1", {2});
  expect("(-1,0)", {0, 2});
  expect("()", {});
  OperatorCase("torch.sum").Input(x).ExpectOutputs({Reduced<double>(x, {}, false, SumOf)});
}

TEST(Sum, ErrorDoesNotGrowWithTheLength) {
  // A naive f32 sum of these loses more than 1e-4.
  const Tensor x = RandomTensor(DType::kF32, {1, 1000003}, 3, 1, 2);
  for (const Shape& shape : {Shape{1, 1000003}, Shape{1000003, 1}}) {
    for (const char* dim : {"0", "1"}) {
      OperatorCase("torch.sum")
          .Param("dim", dim)
          .Input(x.Reshaped(shape))
          .ExpectOutputs(
              {Reduced<double>(x.To(DType::kF64).Reshaped(shape), {dim[0] - '0'}, false, SumOf)
                   .To(DType::kF32)},
              {0, 1e-6});
    }
  }
  const Tensor columns = RandomTensor(DType::kF32, {100000, 3}, 3, 1, 2);
  OperatorCase("torch.mean")
      .Param("dim", "(0)")
      .Input(columns)
      .ExpectOutputs({Reduced<double>(columns.To(DType::kF64), {0}, false, MeanOf).To(DType::kF32)},
                     {0, 1e-6});
}

TEST(Sum, IntegersAndBoolsGiveI64) {
  for (DType dtype :
       {DType::kI8, DType::kU8, DType::kI16, DType::kI32, DType::kI64, DType::kBool}) {
    const Tensor x = RandomTensor(dtype, {3, 5, 4}, 3, -9, 9), wide = x.To(DType::kF64);
    OperatorCase("torch.sum")
        .Param("dim", "(1)")
        .Input(x)
        .ExpectOutputs({Reduced<double>(wide, {1}, false, SumOf).To(DType::kI64)});
    OperatorCase("torch.prod")
        .Param("dim", "2")
        .Input(x)
        .ExpectOutputs({Reduced<double>(wide, {2}, false, ProductOf).To(DType::kI64)});
    OperatorCase("torch.mean")
        .Input(x)
        .ExpectOutputs({Reduced<double>(wide, {}, false, MeanOf).To(DType::kF32)});
  }
}

TEST(Sum, IntegersWrap) {
  const Tensor x = Tensor::From<int64_t>({INT64_MAX, 1}, {2});
  OperatorCase("torch.sum").Input(x).ExpectOutputs({Tensor::Scalar<int64_t>(INT64_MIN)});
  OperatorCase("torch.prod")
      .Input(Tensor::From<int64_t>({INT64_MAX, 2}, {2}))
      .ExpectOutputs({Tensor::Scalar<int64_t>(-2)});
}

TEST(Sum, TakesComplexNumbers) {
  using C = std::complex<float>;
  const Tensor x = Tensor::From<C>({{1, 2}, {3, -1}, {0, 1}, {2, 2}}, {2, 2});
  OperatorCase("torch.sum")
      .Param("dim", "0")
      .Input(x)
      .ExpectOutputs({Tensor::From<C>({{1, 3}, {5, 1}}, {2})});
  OperatorCase("torch.mean")
      .Param("dim", "1")
      .Input(x)
      .ExpectOutputs({Tensor::From<C>({{2, 0.5f}, {1, 1.5f}}, {2})});
  OperatorCase("torch.prod")
      .Param("dim", "1")
      .Input(x)
      .ExpectOutputs({Tensor::From<C>({{5, 5}, {-2, 2}}, {2})});
}

TEST(Prod, TakesAtensForm) {
  const Tensor x = Tensor::From<float>({1.5f, 2, 3}, {3});
  ExpectNear(RunAten("aten::prod", {x}, {"None"})[0], Tensor::Scalar(9.0f));
  ExpectNear(RunAten("aten::prod", {x}, {"7"})[0], Tensor::Scalar(9.0));  // torch's number of f64
}

TEST(Sum, EmptySumsAreTorchs) {
  const Tensor none(DType::kF32, {0, 3});
  const auto expect = [&](const char* type, float value) {
    OperatorCase(type)
        .Param("dim", "0")
        .Input(none)
        .ExpectOutputs({Tensor::From<float>({value, value, value}, {3})});
  };
  expect("torch.sum", 0);
  expect("torch.mean", NAN);
  expect("torch.prod", 1);
}

TEST(Sum, NanAndInfinityComeThrough) {
  const Tensor x = Tensor::From<float>({1, NAN, INFINITY, 2, INFINITY, -INFINITY}, {3, 2});
  OperatorCase("torch.sum")
      .Param("dim", "1")
      .Input(x)
      .ExpectOutputs({Tensor::From<float>({NAN, INFINITY, NAN}, {3})});
}

/// A graph whose output carries a traced dtype, as a .param gives it.
Tensor RunTraced(const std::string& type, const Tensor& x, DType traced,
                 DType traced_input = DType::kNull) {
  Graph graph;
  const int in = graph.AddOperand("0"), out = graph.AddOperand("1");
  graph.operands[static_cast<size_t>(in)].dtype = traced_input;
  graph.operands[static_cast<size_t>(out)].dtype = traced;
  graph.AddOperator({.type = "pnnx.Input", .name = "pnnx_input_0", .outputs = {in}});
  graph.AddOperator({.type = type,
                     .name = "tested",
                     .inputs = {in},
                     .outputs = {out},
                     .params = {{"dim", Parameter("1")}}});
  graph.AddOperator({.type = "pnnx.Output", .name = "pnnx_output_0", .inputs = {out}});
  return Session(RuntimeGraph::Build(std::move(graph))).Forward({x})[0];
}

TEST(Sum, TheTracedDTypeStandsForTheLostParameter) {
  const Tensor x = Tensor::From<float>({0.6f, 1.7f, 2.5f, 3.5f}, {2, 2});
  ExpectNear(RunTraced("torch.sum", x, DType::kF64), Tensor::From<double>({0.6f + 1.7, 6.0}, {2}),
             {1e-7, 1e-7});
  // The input is converted before it is added.
  ExpectNear(RunTraced("torch.sum", x, DType::kI64), Tensor::From<int64_t>({1, 5}, {2}));
  ExpectNear(RunTraced("torch.prod", x, DType::kI32), Tensor::From<int32_t>({0, 6}, {2}));
  ExpectNear(RunTraced("torch.mean", x.To(DType::kI64), DType::kF64),
             Tensor::From<double>({0.5, 2.5}, {2}));
  ExpectNear(RunTraced("torch.mean", x, DType::kI64), Tensor::From<float>({1.15f, 3}, {2}));
  // A trace in f32 throughout asked for nothing: the graph runs on other dtypes as well.
  ExpectNear(RunTraced("torch.sum", x.To(DType::kF64), DType::kF32, DType::kF32),
             Tensor::From<double>({0.6f + 1.7, 6.0}, {2}), {1e-7, 1e-7});
  ExpectNear(RunTraced("torch.sum", x.To(DType::kI32), DType::kI32, DType::kI32),
             Tensor::From<int32_t>({1, 5}, {2}));
  OperatorCase("torch.sum")
      .Param("dtype", "torch.double")
      .Input(x)
      .ExpectOutputs({Tensor::Scalar<double>(8.3)}, {1e-6, 1e-6});
}

}  // namespace
}  // namespace oort::testing
