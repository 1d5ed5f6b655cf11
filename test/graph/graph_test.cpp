// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "graph/graph_builder.h"

namespace oort {
namespace {

Operator MakeOp(std::string type, std::string name, std::vector<int> inputs,
                std::vector<int> outputs) {
  Operator op;
  op.type = std::move(type);
  op.name = std::move(name);
  op.inputs = std::move(inputs);
  op.outputs = std::move(outputs);
  return op;
}

Graph WithOperands(int count) {
  Graph graph;
  for (int i = 0; i < count; ++i) graph.AddOperand(std::to_string(i));
  return graph;
}

TEST(TopologicalOrder, PutsProducersFirstWhateverTheFileOrder) {
  Graph graph = WithOperands(3);
  graph.AddOperator(MakeOp("pnnx.Output", "out", {2}, {}));
  graph.AddOperator(MakeOp("nn.ReLU", "b", {1}, {2}));
  graph.AddOperator(MakeOp("nn.ReLU", "a", {0}, {1}));
  graph.AddOperator(MakeOp("pnnx.Input", "in", {}, {0}));
  EXPECT_EQ(graph.TopologicalOrder(), (std::vector<int>{3, 2, 1, 0}));
}

TEST(TopologicalOrder, KeepsFileOrderWithManyRoots) {
  // Two inputs that join late: a counter that restarts at each root would put `join` too early.
  Graph graph = WithOperands(6);
  graph.AddOperator(MakeOp("pnnx.Input", "in0", {}, {0}));
  graph.AddOperator(MakeOp("pnnx.Input", "in1", {}, {1}));
  graph.AddOperator(MakeOp("nn.ReLU", "a", {0}, {2}));
  graph.AddOperator(MakeOp("nn.ReLU", "b", {1}, {3}));
  graph.AddOperator(MakeOp("nn.ReLU", "c", {3}, {4}));
  graph.AddOperator(MakeOp("torch.cat", "join", {2, 4}, {5}));
  graph.AddOperator(MakeOp("pnnx.Output", "out", {5}, {}));
  EXPECT_EQ(graph.TopologicalOrder(), (std::vector<int>{0, 1, 2, 3, 4, 5, 6}));
}

TEST(TopologicalOrder, NamesTheOperatorsOfACycle) {
  Graph graph = WithOperands(4);
  graph.AddOperator(MakeOp("pnnx.Input", "in", {}, {0}));
  graph.AddOperator(MakeOp("torch.cat", "first", {0, 2}, {1}));
  graph.AddOperator(MakeOp("nn.ReLU", "second", {1}, {2}));
  graph.AddOperator(MakeOp("nn.ReLU", "after", {2}, {3}));
  try {
    graph.TopologicalOrder();
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidModel);
    const std::string text = error.what();
    EXPECT_NE(text.find("'first'"), std::string::npos) << text;
    EXPECT_NE(text.find("'second'"), std::string::npos) << text;
    EXPECT_EQ(text.find("'after'"), std::string::npos) << text;
  }
}

TEST(GraphCheck, ListsAllProblemsAtOnce) {
  Graph graph = WithOperands(4);
  graph.AddOperator(MakeOp("pnnx.Input", "in", {}, {0}));
  graph.AddOperator(MakeOp("nn.ReLU", "same", {0}, {1}));
  graph.AddOperator(MakeOp("nn.ReLU", "same", {0}, {1}));    // name and operand taken
  graph.AddOperator(MakeOp("nn.ReLU", "orphan", {3}, {2}));  // 3 has no producer
  const std::vector<Problem> problems = graph.Check();
  ASSERT_EQ(problems.size(), 3u);
  EXPECT_NE(problems[0].message.find("name is taken"), std::string::npos);
  EXPECT_NE(problems[1].message.find("already produced"), std::string::npos);
  EXPECT_NE(problems[2].message.find("no operator produces it"), std::string::npos);
  EXPECT_EQ(problems[2].operator_name, "orphan");
}

TEST(GraphCheck, SurvivesIndicesOutOfRange) {
  Graph graph = WithOperands(1);
  graph.operators.push_back(MakeOp("nn.ReLU", "wild", {7, -3}, {9}));
  EXPECT_EQ(graph.Check().size(), 3u);
}

TEST(GraphEdit, ReplaceUsesMovesEveryUse) {
  Graph graph = WithOperands(4);
  graph.AddOperator(MakeOp("pnnx.Input", "in", {}, {0}));
  graph.AddOperator(MakeOp("nn.ReLU", "a", {0}, {1}));
  graph.AddOperator(MakeOp("torch.cat", "twice", {1, 1}, {2}));
  graph.ReplaceUses(1, 0);
  EXPECT_EQ(graph.operators[2].inputs, (std::vector<int>{0, 0}));
  EXPECT_TRUE(graph.operands[1].consumers.empty());
  EXPECT_EQ(graph.operands[0].consumers, (std::vector<int>{1, 2, 2}));
}

TEST(GraphEdit, RemoveRenumbersAndDropsUnusedOperands) {
  Graph graph = WithOperands(4);
  graph.AddOperator(MakeOp("pnnx.Input", "in", {}, {0}));
  graph.AddOperator(MakeOp("nn.ReLU", "gone", {0}, {1}));
  graph.AddOperator(MakeOp("nn.ReLU", "kept", {0}, {2}));
  graph.AddOperator(MakeOp("pnnx.Output", "out", {2}, {}));
  graph.Remove({false, true, false, false});
  ASSERT_EQ(graph.operators.size(), 3u);
  ASSERT_EQ(graph.operands.size(), 2u);
  EXPECT_EQ(graph.operands[1].name, "2");
  EXPECT_EQ(graph.operands[1].producer, 1);
  EXPECT_EQ(graph.operands[0].consumers, (std::vector<int>{1}));
  EXPECT_TRUE(graph.Check().empty());
}

/// in -> a -> b -> out, and `both` reads the results of a and b.
Graph Chain() {
  Graph graph = WithOperands(4);
  graph.operands[1].dtype = DType::kF16;
  graph.operands[1].has_shape = true;
  graph.operands[1].shape = {2, 3};
  graph.AddOperator(MakeOp("pnnx.Input", "in", {}, {0}));
  graph.AddOperator(MakeOp("nn.ReLU", "a", {0}, {1}));
  graph.AddOperator(MakeOp("nn.ReLU", "b", {1}, {2}));
  graph.AddOperator(MakeOp("torch.cat", "both", {1, 2}, {3}));
  graph.AddOperator(MakeOp("pnnx.Output", "out", {3}, {}));
  return graph;
}

TEST(GraphSurgery, ReplacesOneInputAndKeepsItsName) {
  Graph graph = Chain();
  graph.operators[3].input_names = {"first", "second"};
  graph.ReplaceInput(3, 1, 1);
  EXPECT_EQ(graph.operators[3].inputs, (std::vector<int>{1, 1}));
  EXPECT_EQ(graph.operators[3].input_names, (std::vector<std::string>{"first", "second"}));
  EXPECT_EQ(graph.operands[1].consumers, (std::vector<int>{2, 3, 3}));
  graph.ReplaceInput(3, 0, 2);  // the other use stays
  EXPECT_EQ(graph.operands[1].consumers, (std::vector<int>{2, 3}));
  EXPECT_EQ(EdgeProblems(graph), "");
}

TEST(GraphSurgery, AddsInputsWithAndWithoutNames) {
  Graph graph = Chain();
  graph.AddInput(2, 0);
  EXPECT_TRUE(graph.operators[2].input_names.empty());
  graph.AddInput(2, 0, "addend");
  EXPECT_EQ(graph.operators[2].inputs, (std::vector<int>{1, 0, 0}));
  EXPECT_EQ(graph.operators[2].input_names, (std::vector<std::string>{"", "", "addend"}));
  EXPECT_EQ(EdgeProblems(graph), "");
}

TEST(GraphSurgery, SetsInputsAndForgetsTheirNames) {
  Graph graph = Chain();
  graph.operators[3].input_names = {"first", "second"};
  graph.SetInputs(3, {0, 0, 2});
  EXPECT_TRUE(graph.operators[3].input_names.empty());
  EXPECT_EQ(graph.operands[1].consumers, (std::vector<int>{2}));
  EXPECT_EQ(graph.operands[0].consumers, (std::vector<int>{1, 3, 3}));
  EXPECT_EQ(EdgeProblems(graph), "");
}

TEST(GraphSurgery, MovesOutputs) {
  Graph graph = Chain();
  graph.MoveOutputs(2, 1);  // a makes what b made
  EXPECT_EQ(graph.operators[1].outputs, (std::vector<int>{2}));
  EXPECT_TRUE(graph.operators[2].outputs.empty());
  EXPECT_EQ(graph.operands[1].producer, -1);
  EXPECT_EQ(graph.operands[2].producer, 1);
  EXPECT_EQ(EdgeProblems(graph), "");
  graph.MoveOutputs(1, 1);
  EXPECT_EQ(graph.operators[1].outputs, (std::vector<int>{2}));
  graph.ReplaceOutput(1, 0, 1);
  EXPECT_EQ(graph.operands[1].producer, 1);
  EXPECT_EQ(graph.operands[2].producer, -1);
  graph.SetOutputs(1, {2, 1});
  EXPECT_EQ(graph.operators[1].outputs, (std::vector<int>{2, 1}));
  EXPECT_EQ(EdgeProblems(graph), "");
}

TEST(GraphSurgery, AddsAnOperatorOnAnOperandWithItsHints) {
  Graph graph = Chain();
  Operator cast;
  cast.type = "Tensor.to";
  cast.name = "cast";
  const int result = graph.AddOperatorOn(1, cast, "1.f32");
  const Operand& made = graph.operands[static_cast<size_t>(result)];
  EXPECT_EQ(made.name, "1.f32");
  EXPECT_EQ(made.dtype, DType::kF16);
  EXPECT_TRUE(made.has_shape);
  EXPECT_EQ(made.shape, (Shape{2, 3}));
  EXPECT_EQ(graph.operators[static_cast<size_t>(made.producer)].inputs, (std::vector<int>{1}));
  graph.ReplaceInput(2, 0, result);
  EXPECT_EQ(EdgeProblems(graph), "");
  EXPECT_TRUE(graph.Check().empty());
}

TEST(GraphSurgery, ReplacingAnOperandByItselfChangesNothing) {
  Graph graph = Chain();
  graph.ReplaceUses(1, 1);
  EXPECT_EQ(graph.operands[1].consumers, (std::vector<int>{2, 3}));
  EXPECT_EQ(EdgeProblems(graph), "");
}

TEST(GraphSurgery, RefusesWhatIsNotThereAndChangesNothing) {
  Graph graph = Chain();
  const auto refuses = [&](auto edit) {
    try {
      edit();
      ADD_FAILURE() << "expected an error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.what();
    }
    EXPECT_EQ(EdgeProblems(graph), "");
    EXPECT_EQ(graph.operators[3].inputs, (std::vector<int>{1, 2}));
    EXPECT_EQ(graph.operators[3].outputs, (std::vector<int>{3}));
  };
  refuses([&] { graph.ReplaceInput(5, 0, 1); });
  refuses([&] { graph.ReplaceInput(-1, 0, 1); });
  refuses([&] { graph.ReplaceInput(3, 2, 1); });
  refuses([&] { graph.ReplaceInput(3, 0, 4); });
  refuses([&] { graph.AddInput(3, -1, "x"); });
  refuses([&] { graph.SetInputs(3, {1, 9}); });
  refuses([&] { graph.SetOutputs(3, {3, 9}); });
  refuses([&] { graph.SetOutputs(3, {3, 3}); });   // twice
  refuses([&] { graph.ReplaceOutput(3, 0, 1); });  // operator a makes that
  refuses([&] { graph.ReplaceOutput(3, 1, 3); });
  refuses([&] { graph.MoveOutputs(3, 7); });
  refuses([&] { graph.ReplaceUses(1, 4); });
  refuses([&] { graph.AddOperandLike(4, "x"); });
  refuses([&] { graph.AddOperatorOn(4, {}, "x"); });
  EXPECT_EQ(graph.operands.size(), 4u);
  EXPECT_EQ(graph.operators.size(), 5u);
}

TEST(GraphPorts, AreOrderedByTheNumbersInTheirNames) {
  Graph graph = WithOperands(3);
  graph.AddOperator(MakeOp("pnnx.Input", "pnnx_input_10", {}, {0}));
  graph.AddOperator(MakeOp("pnnx.Input", "pnnx_input_2", {}, {1}));
  graph.AddOperator(MakeOp("pnnx.Input", "pnnx_input_0", {}, {2}));
  EXPECT_EQ(graph.InputOperators(), (std::vector<int>{2, 1, 0}));
}

}  // namespace
}  // namespace oort
