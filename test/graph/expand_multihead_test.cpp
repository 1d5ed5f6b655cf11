// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <map>

#include "graph/graph_builder.h"
#include "graph/passes/passes.h"
#include "oort/session.h"
#include "oort/testing.h"

namespace oort {
namespace {

constexpr int64_t kWidth = 12;

PassContext ForGpu(DType narrow = DType::kNull) {
  PassContext context{
      [](const Operator&, std::span<const Value>) { return std::optional<std::vector<Value>>(); }};
  context.on_gpu = true;
  context.narrow = narrow;
  return context;
}

/// x + MultiheadAttention(x), with `params` and, unless it is none, the inputs `inputs` of it.
Graph BlockOfHeads(const std::string& params, const std::string& inputs = "1 1 0 1",
                   const std::string& outputs = "#1=(2,5,12)f32\n") {
  Graph graph = GraphFromText(
      "pnnx.Input pnnx_input_0 0 1 0 #0=(2,5,12)f32\n"
      "nn.MultiheadAttention heads " +
      inputs + " num_heads=3 " + params + " #0=(2,5,12)f32 " + outputs +
      "pnnx.Expression sum 2 1 0 1 9 expr=add(@0,@1) #0=(2,5,12)f32 #1=(2,5,12)f32 "
      "#9=(2,5,12)f32\n"
      "pnnx.Output pnnx_output_0 1 0 9 #9=(2,5,12)f32\n");
  Operator& op = graph.operators[static_cast<size_t>(graph.FindOperator("heads"))];
  const auto random = [](Shape shape, uint64_t seed) {
    return testing::RandomTensor(DType::kF32, shape, seed, -0.5, 0.5);
  };
  op.attributes["in_proj_weight"] = random({3 * kWidth, kWidth}, 1);
  op.attributes["in_proj_bias"] = random({3 * kWidth}, 2);
  op.attributes["out_proj.weight"] = random({kWidth, kWidth}, 3);
  op.attributes["out_proj.bias"] = random({kWidth}, 4);
  return graph;
}

std::map<std::string, int> TypesOf(const Graph& graph) {
  std::map<std::string, int> types;
  for (const Operator& op : graph.operators) ++types[op.type];
  return types;
}

TEST(ExpandMultihead, IsTwoProductsAndAttentionWithTheSameAnswer) {
  const Graph whole = BlockOfHeads("batch_first=True");
  Graph parts = whole;
  ExpandMultihead(parts, ForGpu());
  EXPECT_TRUE(parts.Check().empty());
  std::map<std::string, int> types = TypesOf(parts);
  EXPECT_EQ(types["nn.MultiheadAttention"], 0);
  EXPECT_EQ(types["nn.Linear"], 2);
  EXPECT_EQ(types["oort.JointAttention"], 1);
  for (const Shape& shape : {Shape{2, 5, kWidth}, Shape{1, 9, kWidth}, Shape{7, kWidth}}) {
    const Tensor input = testing::RandomTensor(DType::kF32, shape, 7, -1, 1);
    const Tensor want = Session(RuntimeGraph::Build(whole)).Forward({input})[0];
    const Tensor got = Session(RuntimeGraph::Build(parts)).Forward({input})[0];
    testing::ExpectNear(got, want, {1e-5, 1e-5});
  }
}

TEST(ExpandMultihead, PartsComputeIn16Bits) {
  Graph graph = BlockOfHeads("batch_first=True");
  const PassContext context = ForGpu(DType::kF16);
  ExpandMultihead(graph, context);
  NarrowFloats(graph, context);
  EXPECT_TRUE(graph.Check().empty());
  for (const Operator& op : graph.operators) {
    if (op.type != "nn.Linear" && op.type != "oort.JointAttention") continue;
    EXPECT_EQ(graph.operands[static_cast<size_t>(op.outputs[0])].dtype, DType::kF16) << op.name;
  }
}

TEST(ExpandMultihead, AnOutputThatNobodyReadsGoes) {
  Graph graph = BlockOfHeads("batch_first=True", "1 2 0 1 2", "#1=(2,5,12)f32 #2=(2,5,5)f32\n");
  ExpandMultihead(graph, ForGpu());
  EXPECT_TRUE(graph.Check().empty());
  EXPECT_EQ(TypesOf(graph)["oort.JointAttention"], 1);
}

TEST(ExpandMultihead, OthersStayWhole) {
  const auto stays = [](Graph graph) {
    ExpandMultihead(graph, ForGpu());
    return TypesOf(graph)["nn.MultiheadAttention"] == 1;
  };
  EXPECT_TRUE(stays(BlockOfHeads("batch_first=False")));
  EXPECT_TRUE(stays(BlockOfHeads("batch_first=True add_zero_attn=True")));
  Graph graph = BlockOfHeads("batch_first=True");
  Operator& op = graph.operators[static_cast<size_t>(graph.FindOperator("heads"))];
  op.attributes["out_proj.weight"] = testing::RandomTensor(DType::kF32, {kWidth, 2 * kWidth}, 5);
  EXPECT_TRUE(stays(graph));
  graph = BlockOfHeads("batch_first=True");
  Operator& wide = graph.operators[static_cast<size_t>(graph.FindOperator("heads"))];
  wide.params["num_heads"] = Parameter("1");
  constexpr int64_t kWide = 320;
  wide.attributes["in_proj_weight"] = testing::RandomTensor(DType::kF32, {3 * kWide, kWide}, 1);
  wide.attributes["in_proj_bias"] = testing::RandomTensor(DType::kF32, {3 * kWide}, 1);
  wide.attributes["out_proj.weight"] = testing::RandomTensor(DType::kF32, {kWide, kWide}, 1);
  wide.attributes["out_proj.bias"] = testing::RandomTensor(DType::kF32, {kWide}, 1);
  EXPECT_TRUE(stays(graph));  // the GPU's attention has no heads of 320
  graph = BlockOfHeads("batch_first=True");
  PassContext on_cpu = ForGpu();
  on_cpu.on_gpu = false;
  ExpandMultihead(graph, on_cpu);
  EXPECT_EQ(TypesOf(graph)["nn.MultiheadAttention"], 1);
}

}  // namespace
}  // namespace oort
