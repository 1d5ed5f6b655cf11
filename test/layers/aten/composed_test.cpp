// SPDX-License-Identifier: MIT
// Rearrangements, diagonals, bags of rows and distances in ATen's form. Expected values are
// torch's.
#include <gtest/gtest.h>

#include <cmath>

#include "aten_values.h"

namespace oort::testing {
namespace {

/// Runs a bag of rows as pnnx writes it: with nine inputs, of which flags are constants.
void Bag(const std::vector<Value>& inputs, const Tensor& expected) {
  const char* names[] = {"weight",
                         "indices",
                         "offsets",
                         "scale_grad_by_freq",
                         "mode",
                         "sparse",
                         "per_sample_weights",
                         "include_last_offset",
                         "padding_idx"};
  OperatorCase tested("aten::embedding_bag");
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].IsTensor()) {
      tested.Input(inputs[i], names[i]);
    } else if (!inputs[i].IsNone()) {
      tested.Param(names[i], inputs[i].ToString());
    }
  }
  tested.ExpectOutputs({expected}, {1e-5, 1e-4});
}

TEST(AtenComposed, BroadcastsAndFlattens) {
  Check("aten::broadcast_to", {F({3.0799999, -0.59, -4.3600001}, {3}), L({Value(2), Value(3)})},
        {F({3.0799999, -0.59, -4.3600001, 3.0799999, -0.59, -4.3600001}, {2, 3})});
  Check("aten::ravel",
        {F({1.14, -2.1700001, -2.8, 0.81, 1.6799999, -1.4400001, -0.81, -1.1900001}, {2, 4})},
        {F({1.14, -2.1700001, -2.8, 0.81, 1.6799999, -1.4400001, -0.81, -1.1900001}, {8})});
  Check("aten::ravel", {F({2.5}, {})}, {F({2.5}, {1})});
  Check("aten::atleast_1d", {F({2.5}, {})}, {F({2.5}, {1})});
  Check("aten::atleast_1d", {F({3.0799999, -0.59, -4.3600001}, {3})},
        {F({3.0799999, -0.59, -4.3600001}, {3})});
  Check("aten::atleast_1d",
        {F({1.14, -2.1700001, -2.8, 0.81, 1.6799999, -1.4400001, -0.81, -1.1900001}, {2, 4})},
        {F({1.14, -2.1700001, -2.8, 0.81, 1.6799999, -1.4400001, -0.81, -1.1900001}, {2, 4})});
  Check("aten::atleast_2d", {F({2.5}, {})}, {F({2.5}, {1, 1})});
  Check("aten::atleast_2d", {F({3.0799999, -0.59, -4.3600001}, {3})},
        {F({3.0799999, -0.59, -4.3600001}, {1, 3})});
  Check("aten::atleast_2d",
        {F({1.14, -2.1700001, -2.8, 0.81, 1.6799999, -1.4400001, -0.81, -1.1900001}, {2, 4})},
        {F({1.14, -2.1700001, -2.8, 0.81, 1.6799999, -1.4400001, -0.81, -1.1900001}, {2, 4})});
  Check("aten::atleast_3d", {F({2.5}, {})}, {F({2.5}, {1, 1, 1})});
  Check("aten::atleast_3d", {F({3.0799999, -0.59, -4.3600001}, {3})},
        {F({3.0799999, -0.59, -4.3600001}, {1, 3, 1})});
  Check("aten::atleast_3d",
        {F({1.14, -2.1700001, -2.8, 0.81, 1.6799999, -1.4400001, -0.81, -1.1900001}, {2, 4})},
        {F({1.14, -2.1700001, -2.8, 0.81, 1.6799999, -1.4400001, -0.81, -1.1900001}, {2, 4, 1})});
}

TEST(AtenComposed, SplitsAsNumpyDoes) {
  Check("aten::hsplit",
        {F({1.14, -2.1700001, -2.8, 0.81, 1.6799999, -1.4400001, -0.81, -1.1900001}, {2, 4}),
         Value(2)},
        {F({1.14, -2.1700001, 1.6799999, -1.4400001}, {2, 2}),
         F({-2.8, 0.81, -0.81, -1.1900001}, {2, 2})});
  Check("aten::hsplit", {F({3.0799999, -0.59, -4.3600001}, {3}), L({Value(1)})},
        {F({3.0799999}, {1}), F({-0.59, -4.3600001}, {2})});
  Check("aten::vsplit",
        {F({1.14, -2.1700001, -2.8, 0.81, 1.6799999, -1.4400001, -0.81, -1.1900001}, {2, 4}),
         Value(2)},
        {F({1.14, -2.1700001, -2.8, 0.81}, {1, 4}),
         F({1.6799999, -1.4400001, -0.81, -1.1900001}, {1, 4})});
  Check("aten::vsplit",
        {F({1.14, -2.1700001, -2.8, 0.81, 1.6799999, -1.4400001, -0.81, -1.1900001}, {2, 4}),
         L({Value(1), Value(5)})},
        {F({1.14, -2.1700001, -2.8, 0.81}, {1, 4}),
         F({1.6799999, -1.4400001, -0.81, -1.1900001}, {1, 4}), F({}, {0, 4})});
  Check("aten::dsplit",
        {F({1.14, -2.1700001, -2.8, 0.81, 1.6799999, -1.4400001, -0.81, -1.1900001}, {1, 2, 4}),
         L({Value(1), Value(3)})},
        {F({1.14, 1.6799999}, {1, 2, 1}), F({-2.1700001, -2.8, -1.4400001, -0.81}, {1, 2, 2}),
         F({0.81, -1.1900001}, {1, 2, 1})});
  Check("aten::dsplit",
        {F({1.14, -2.1700001, -2.8, 0.81, 1.6799999, -1.4400001, -0.81, -1.1900001}, {1, 2, 4}),
         Value(4)},
        {F({1.14, 1.6799999}, {1, 2, 1}), F({-2.1700001, -1.4400001}, {1, 2, 1}),
         F({-2.8, -0.81}, {1, 2, 1}), F({0.81, -1.1900001}, {1, 2, 1})});
}

TEST(AtenComposed, BuildsDiagonals) {
  Check("aten::diag_embed",
        {F({3.0799999, -0.59, -4.3600001}, {3}), Value(0), Value(-2), Value(-1)},
        {F({3.0799999, 0.0, 0.0, 0.0, -0.59, 0.0, 0.0, 0.0, -4.3600001}, {3, 3})});
  Check("aten::diag_embed",
        {F({0.36, -1.71, 2.2, -2.1400001}, {2, 2}), Value(-1), Value(0), Value(2)},
        {F({0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.36, 0.0, 0.0, 2.2, 0.0, 0.0, 0.0, -1.71, 0.0, 0.0,
            -2.1400001, 0.0},
           {3, 2, 3})});
  Check("aten::diag_embed", {F({0.25, -1.13, 0.75, -1.78}, {2, 2}), Value(1), Value(-1), Value(0)},
        {F({0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.25, 0.0, 0.0, 0.75, 0.0, 0.0, 0.0, -1.13, 0.0, 0.0,
            -1.78, 0.0},
           {3, 2, 3})});
  Check("aten::diagflat", {F({-3.02, 0.74}, {1, 2}), Value(1)},
        {F({0.0, -3.02, 0.0, 0.0, 0.0, 0.74, 0.0, 0.0, 0.0}, {3, 3})});
  Check("aten::diagflat", {F({3.0799999, -0.59, -4.3600001}, {3}), Value(-2)},
        {F({0.0, 0.0, 0.0, 0.0,   0.0, 0.0, 0.0, 0.0, 0.0, 0.0,        3.0799999, 0.0, 0.0,
            0.0, 0.0, 0.0, -0.59, 0.0, 0.0, 0.0, 0.0, 0.0, -4.3600001, 0.0,       0.0},
           {5, 5})});
  Check("aten::diagonal_scatter",
        {F({1.14, -2.1700001, -2.8, 0.81, 1.6799999, -1.4400001, -0.81, -1.1900001}, {2, 4}),
         F({2.9100001, 1.88}, {2}), Value(1), Value(0), Value(1)},
        {F({1.14, 2.9100001, -2.8, 0.81, 1.6799999, -1.4400001, 1.88, -1.1900001}, {2, 4})});
  Check("aten::diagonal_scatter",
        {F({1.55, 0.38, 2.53, -2.5799999, -1.58, -0.04, -1.4400001, 1.04}, {2, 2, 2}),
         F({-2.6300001, 0.38}, {2, 1}), Value(-1), Value(0), Value(2)},
        {F({1.55, 0.38, 2.53, -2.5799999, -2.6300001, -0.04, 0.38, 1.04}, {2, 2, 2})});
  Check("aten::block_diag",
        {L({F({1.14, -2.1700001, -2.8, 0.81, 1.6799999, -1.4400001, -0.81, -1.1900001}, {2, 4}),
            F({3.0799999, -0.59, -4.3600001}, {3}), F({2.5}, {})})},
        {F({1.14,       -2.1700001, -2.8, 0.81, 0.0, 0.0, 0.0, 0.0, 1.6799999, -1.4400001, -0.81,
            -1.1900001, 0.0,        0.0,  0.0,  0.0, 0.0, 0.0, 0.0, 0.0,       3.0799999,  -0.59,
            -4.3600001, 0.0,        0.0,  0.0,  0.0, 0.0, 0.0, 0.0, 0.0,       2.5},
           {4, 8})});
}

TEST(AtenComposed, GathersBags) {
  Bag({F({1.09, -4.4400001, 0.52, -2.0599999, -1.0, 0.55, -1.84, -0.08, 0.58, -0.02}, {5, 2}),
       I({0, 4, 2, 2, 1}, {5}), I({0, 2, 2}, {3}), Value(false), Value(0), Value(false), Value(),
       Value(false), Value()},
      F({1.6700001, -4.46, 0.0, 0.0, -1.48, -0.9599999}, {3, 2}));
  Bag({F({1.09, -4.4400001, 0.52, -2.0599999, -1.0, 0.55, -1.84, -0.08, 0.58, -0.02}, {5, 2}),
       I({0, 4, 2, 2, 1}, {5}), I({0, 2, 2}, {3}), Value(false), Value(1), Value(false), Value(),
       Value(false), Value()},
      F({0.835, -2.23, 0.0, 0.0, -0.4933333, -0.32}, {3, 2}));
  Bag({F({1.09, -4.4400001, 0.52, -2.0599999, -1.0, 0.55, -1.84, -0.08, 0.58, -0.02}, {5, 2}),
       I({0, 4, 2, 2, 1}, {5}), I({0, 2, 2}, {3}), Value(false), Value(2), Value(false), Value(),
       Value(false), Value()},
      F({1.09, -0.02, 0.0, 0.0, 0.52, 0.55}, {3, 2}));
  Bag({F({1.09, -4.4400001, 0.52, -2.0599999, -1.0, 0.55, -1.84, -0.08, 0.58, -0.02}, {5, 2}),
       I({0, 4, 2, 2, 1}, {5}), I({0, 2, 2}, {3}), Value(false), Value(0), Value(false),
       F({-1.83, -2.1800001, -0.53, 0.38, -0.44}, {5}), Value(false), Value()},
      F({-3.2591, 8.1688004, 0.0, 0.0, -0.0788, 0.8239}, {3, 2}));
  Bag({F({1.09, -4.4400001, 0.52, -2.0599999, -1.0, 0.55, -1.84, -0.08, 0.58, -0.02}, {5, 2}),
       I({0, 4, 2, 2, 1}, {5}), I({0, 3, 5}, {3}), Value(false), Value(1), Value(false), Value(),
       Value(true), Value()},
      F({0.2233334, -1.3033334, -0.24, -0.755}, {2, 2}));
  Bag({F({1.09, -4.4400001, 0.52, -2.0599999, -1.0, 0.55, -1.84, -0.08, 0.58, -0.02}, {5, 2}),
       I({0, 4, 2, 2, 1}, {5}), I({0, 2, 2}, {3}), Value(false), Value(1), Value(false), Value(),
       Value(false), Value(2)},
      F({0.835, -2.23, 0.0, 0.0, 0.52, -2.0599999}, {3, 2}));
  Bag({F({1.09, -4.4400001, 0.52, -2.0599999, -1.0, 0.55, -1.84, -0.08, 0.58, -0.02}, {5, 2}),
       I({0, 4, 2, 2, 1}, {5}), I({0, 2, 2}, {3}), Value(false), Value(2), Value(false), Value(),
       Value(false), Value(-1)},
      F({1.09, -4.4400001, 0.0, 0.0, 0.52, 0.55}, {3, 2}));
  Bag({F({1.09, -4.4400001, 0.52, -2.0599999, -1.0, 0.55, -1.84, -0.08, 0.58, -0.02}, {5, 2}),
       I({0, 4, 2, 2, 1}, {5}), I({0, 5}, {2}), Value(false), Value(0), Value(false), Value(),
       Value(false), Value()},
      F({0.1900001, -5.4200001, 0.0, 0.0}, {2, 2}));
}

TEST(AtenComposed, MeasuresAllPairs) {
  OperatorCase("aten::pdist")
      .Param("p", "0")
      .Input(F({4.1199999, -0.07, 0.13, -1.53, 2.2, 5.5100002}, {3, 2}))
      .ExpectOutputs({F({2.0, 2.0, 2.0}, {3})});
  OperatorCase("aten::pdist")
      .Param("p", "1")
      .Input(F({4.1199999, -0.07, 0.13, -1.53, 2.2, 5.5100002}, {3, 2}))
      .ExpectOutputs({F({5.4499998, 7.5, 9.1100006}, {3})});
  OperatorCase("aten::pdist")
      .Param("p", "2")
      .Input(F({4.1199999, -0.07, 0.13, -1.53, 2.2, 5.5100002}, {3, 2}))
      .ExpectOutputs({F({4.2487292, 5.9010849, 7.3380175}, {3})});
  OperatorCase("aten::pdist")
      .Param("p", "3")
      .Input(F({4.1199999, -0.07, 0.13, -1.53, 2.2, 5.5100002}, {3, 2}))
      .ExpectOutputs({F({4.0541253, 5.654767, 7.0991564}, {3})});
  OperatorCase("aten::pdist")
      .Param("p", "inf")
      .Input(F({4.1199999, -0.07, 0.13, -1.53, 2.2, 5.5100002}, {3, 2}))
      .ExpectOutputs({F({3.9899998, 5.5800004, 7.04}, {3})});
}

TEST(AtenComposed, BagsTellWhereRowsWent) {
  const std::vector<Tensor> outputs = RunAten(
      "aten::embedding_bag", {F({1, 2, 3, 4, 5, 0}, {3, 2}), I({2, 0, 1}, {3}), I({0, 2}, {2})},
      {"False", "2", "False", "None", "False", "None"}, 4);
  ExpectNear(outputs[0], F({5, 2, 3, 4}, {2, 2}));
  ExpectNear(outputs[1], I({0, 0, 1}, {3}));
  ExpectNear(outputs[2], I({2, 1}, {2}));
  ExpectNear(outputs[3], I({2, 0, 1, 1}, {2, 2}));
}

TEST(AtenComposed, ListsOfPartsAreUnpacked) {
  for (const char* type : {"aten::split", "aten::hsplit", "aten::chunk"}) {
    Graph graph;
    const int in = graph.AddOperand("in"), size = graph.AddOperand("size");
    const int list = graph.AddOperand("list"), a = graph.AddOperand("a");
    const int b = graph.AddOperand("b");
    graph.AddOperator({.type = "pnnx.Input", .name = "pnnx_input_0", .outputs = {in}});
    graph.AddOperator({.type = "pnnx.Expression",
                       .name = "two",
                       .outputs = {size},
                       .params = {{"expr", Parameter("2")}}});
    graph.AddOperator({.type = type, .name = "cut", .inputs = {in, size}, .outputs = {list}});
    graph.AddOperator(
        {.type = "prim::ListUnpack", .name = "unpack", .inputs = {list}, .outputs = {a, b}});
    graph.AddOperator({.type = "pnnx.Output", .name = "pnnx_output_0", .inputs = {a, b}});
    Session session(RuntimeGraph::Build(std::move(graph)));
    const std::vector<Tensor> parts = session.Forward({F({1, 2, 3, 4}, {4})});
    ASSERT_EQ(parts.size(), 2u);
    ExpectNear(parts[0], F({1, 2}, {2}));
    ExpectNear(parts[1], F({3, 4}, {2}));
  }
}

TEST(AtenComposed, NumbersDivide) {
  Graph graph;
  const int in = graph.AddOperand("in"), a = graph.AddOperand("a"), b = graph.AddOperand("b");
  const int number = graph.AddOperand("number"), out = graph.AddOperand("out");
  graph.AddOperator({.type = "pnnx.Input", .name = "pnnx_input_0", .outputs = {in}});
  graph.AddOperator({.type = "Tensor.size",
                     .name = "size",
                     .inputs = {in},
                     .outputs = {a},
                     .params = {{"dim", Parameter("0")}}});
  graph.AddOperator({.type = "pnnx.Expression",
                     .name = "divisor",
                     .outputs = {b},
                     .params = {{"expr", Parameter("-2")}}});
  graph.AddOperator(
      {.type = "aten::floordiv", .name = "divide", .inputs = {a, b}, .outputs = {number}});
  graph.AddOperator({.type = "pnnx.Expression",
                     .name = "times",
                     .inputs = {in, number},
                     .outputs = {out},
                     .params = {{"expr", Parameter("mul(@0,@1)")}}});
  graph.AddOperator({.type = "pnnx.Output", .name = "pnnx_output_0", .inputs = {out}});
  ExpectNear(Session(RuntimeGraph::Build(std::move(graph))).Forward({F({1, 2, 3}, {3})})[0],
             F({-2, -4, -6}, {3}));
}

TEST(AtenComposed, ProductsOfComplexVectorsConjugate) {
  const auto vector = [](std::complex<float> a, std::complex<float> b) {
    return Tensor::From<std::complex<float>>({a, b}, {2});
  };
  // (1 - 2i)(3 + i) + 2i(1 - i) = 5 - 5i + 2i + 2
  OperatorCase("aten::vdot")
      .Input(vector({1, 2}, {0, -2}))
      .Input(vector({3, 1}, {1, -1}))
      .ExpectOutputs({Tensor::From<std::complex<float>>({{7, -3}}, {})});
  OperatorCase("aten::vdot")
      .Input(F({1, 2}, {2}))
      .Input(F({3, 4}, {2}))
      .ExpectOutputs({F({11}, {})});
}

TEST(AtenComposed, RefusesWhatDoesNotFit) {
  const Tensor x = F({1, 2, 3, 4, 5, 6}, {2, 3});
  const auto expect = [](const char* type, std::initializer_list<Value> inputs, const char* text) {
    OperatorCase tested(type);
    for (const Value& input : inputs) tested.Input(input);
    tested.ExpectError(ErrorCode::kInvalidArgument, text);
  };
  expect("aten::hsplit", {x, Value(2)}, "equal parts");
  expect("aten::vsplit", {F({1, 2}, {2}), Value(2)}, "rank of at least 2");
  expect("aten::dsplit", {x, Value(2)}, "rank of at least 3");
  expect("aten::diag_embed", {x, Value(0), Value(1), Value(1)}, "two axes");
  expect("aten::diag_embed", {x, Value(INT64_MIN), Value(0), Value(1)}, "diagonal");
  expect("aten::diag_embed", {x, Value(INT64_MAX), Value(0), Value(1)}, "");
  expect("aten::diagonal_scatter", {x, F({1}, {1}), Value(0), Value(0), Value(1)}, "source");
  expect("aten::block_diag", {L({F({1}, {1, 1, 1})})}, "at most 2 axes");
  expect("aten::broadcast_to", {x, L({Value(2), Value(2)})}, "cannot expand");
  expect("aten::pdist", {F({1}, {1})}, "matrix");
  const Tensor table = F({1, 2, 3, 4}, {2, 2});
  expect("aten::embedding_bag", {table, I({0, 2}, {2}), I({0}, {1})}, "");
  expect("aten::embedding_bag", {table, I({0, 1}, {2}), I({1}, {1})}, "begin with 0");
  expect("aten::embedding_bag", {table, I({0, 1}, {2}), I({0, 2, 1}, {3})}, "begin with 0");
  expect("aten::embedding_bag", {table, I({0, 1}, {2}), I({0, 3}, {2})}, "begin with 0");
  OperatorCase("aten::embedding_bag")
      .Input(table)
      .Input(I({0}, {1}))
      .Input(I({0}, {1}))
      .Param("mode", "3")
      .ExpectError(ErrorCode::kInvalidModel, "mode");
  OperatorCase("aten::pdist").Param("p", "-1").Input(x).ExpectError(ErrorCode::kInvalidModel, "p");
}

}  // namespace
}  // namespace oort::testing
