// SPDX-License-Identifier: MIT
// Rearrangements, diagonals, bags of rows and distances in ATen's form. Expected values are
// torch's.
#include <gtest/gtest.h>

#include <cmath>

#include "layers/aten/aten_values.h"

namespace oort::testing {
namespace {

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
