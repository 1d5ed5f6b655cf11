// SPDX-License-Identifier: MIT
// Which operators share memory, and that sharing changes no result.
#include <gtest/gtest.h>

#include "moved_elements.h"

namespace oort::testing {
namespace {

/// input -> flip -> the tested operator -> flip -> output: the operator's input is an activation.
Graph Sandwich(const std::string& type, const std::map<std::string, std::string>& params) {
  Graph graph;
  for (const char* name : {"in", "a", "b", "out"}) graph.AddOperand(name);
  const auto add = [&](const std::string& op_type, const std::string& name, std::vector<int> inputs,
                       std::vector<int> outputs, const std::map<std::string, std::string>& texts) {
    Operator op;
    op.type = op_type;
    op.name = name;
    op.inputs = std::move(inputs);
    op.input_names.resize(op.inputs.size());
    op.outputs = std::move(outputs);
    for (const auto& [key, text] : texts) op.params[key] = Parameter(text);
    graph.AddOperator(std::move(op));
  };
  add("pnnx.Input", "pnnx_input_0", {}, {0}, {});
  add("torch.flip", "before", {0}, {1}, {{"dims", "(0)"}});
  add(type, "tested", {1}, {2}, params);
  add("torch.flip", "after", {2}, {3}, {{"dims", "(0)"}});
  add("pnnx.Output", "pnnx_output_0", {3}, {}, {});
  return graph;
}

bool IsView(const std::string& type, const std::map<std::string, std::string>& params,
            const Shape& shape) {
  const auto graph = RuntimeGraph::Build(Sandwich(type, params));
  for (const NodeReport& node : graph->Plan({Tensor::Meta(DType::kF32, shape)}).nodes) {
    if (node.name == "tested") return node.sharing.find("view of") != std::string::npos;
  }
  ADD_FAILURE() << "the operator is gone";
  return false;
}

TEST(StridedLayer, SharesMemoryWhereElementsStayInOrder) {
  EXPECT_TRUE(IsView("Tensor.reshape", {{"shape", "(6,4)"}}, {2, 3, 4}));
  EXPECT_TRUE(IsView("torch.flatten", {}, {2, 3, 4}));
  EXPECT_TRUE(IsView("torch.squeeze", {}, {2, 1, 4}));
  EXPECT_TRUE(IsView("torch.unsqueeze", {{"dim", "1"}}, {2, 3}));
  EXPECT_TRUE(IsView("Tensor.permute", {{"dims", "(0,2,1)"}}, {2, 1, 4}));
  EXPECT_TRUE(IsView("Tensor.expand", {{"sizes", "(2,3)"}}, {2, 3}));
  EXPECT_TRUE(IsView("Tensor.select", {{"dim", "0"}, {"index", "1"}}, {2, 3}));
  EXPECT_TRUE(IsView("torch.cat", {{"dim", "0"}}, {2, 3}));  // of one tensor
  EXPECT_TRUE(IsView("torch.narrow", {{"dim", "0"}, {"start", "1"}, {"length", "2"}}, {4, 3}));
  EXPECT_TRUE(IsView("torch.narrow", {{"dim", "1"}, {"start", "1"}, {"length", "2"}}, {1, 3, 5}));
}

TEST(StridedLayer, CopiesWhereTheyDoNot) {
  EXPECT_FALSE(IsView("Tensor.permute", {{"dims", "(1,0)"}}, {2, 3}));
  EXPECT_FALSE(IsView("Tensor.expand", {{"sizes", "(2,3)"}}, {1, 3}));
  EXPECT_FALSE(IsView("torch.narrow", {{"dim", "1"}, {"start", "1"}, {"length", "2"}}, {2, 3, 5}));
  EXPECT_FALSE(IsView("torch.flip", {{"dims", "(0)"}}, {2, 3}));
}

TEST(StridedLayer, ViewsAtAnOffsetReadTheRightElements) {
  const Tensor x = RangeTensor(DType::kF32, {3, 4});
  const auto graph = RuntimeGraph::Build(
      Sandwich("torch.narrow", {{"dim", "0"}, {"start", "1"}, {"length", "2"}}));
  Session session(graph);
  // flip(narrow(flip(x)))
  ExpectNear(session.Forward({x})[0], x.Rows(0, 2));
  // The same session at another size.
  const Tensor larger = RangeTensor(DType::kF32, {5, 2});
  ExpectNear(session.Forward({larger})[0], larger.Rows(2, 4));
}

}  // namespace
}  // namespace oort::testing
