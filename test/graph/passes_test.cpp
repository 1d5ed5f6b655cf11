// SPDX-License-Identifier: MIT
// Each pass: the graph before, the graph after, and that the answers stay the same.
#include <gtest/gtest.h>

#include "graph/graph_builder.h"
#include "graph/passes/passes.h"
#include "oort/testing.h"

namespace oort {
namespace {

using testing::ExpectNear;
using testing::RandomTensor;

const PassContext kNoEvaluation{
    [](const Operator&, std::span<const Value>) { return std::optional<std::vector<Value>>(); }};

TEST(RemoveDeadCode, DropsWhatReachesNoOutputButKeepsInputs) {
  Graph graph = GraphFromText(
      "pnnx.Input pnnx_input_0 0 1 0\n"
      "pnnx.Input pnnx_input_1 0 1 1\n"
      "nn.ReLU used 1 1 0 2\n"
      "nn.ReLU dead 1 1 2 3\n"
      "nn.ReLU dead_too 1 1 3 4\n"
      "pnnx.Output pnnx_output_0 1 0 2\n");
  RemoveDeadCode(graph, kNoEvaluation);
  EXPECT_EQ(Types(graph), "pnnx.Input pnnx.Input nn.ReLU pnnx.Output");
  EXPECT_TRUE(graph.Check().empty());
}

std::string StridedInput(const std::string& lines) {
  Graph graph = GraphFromText("pnnx.Input pnnx_input_0 0 1 0 #0=(1,6,8)f32\n" + lines +
                              "pnnx.Output pnnx_output_0 1 0 9\n");
  ReadStorage(graph, kNoEvaluation);
  EXPECT_TRUE(graph.Check().empty());
  const Operator& op = graph.operators[graph.operators.size() - 2];
  return graph.operands[static_cast<size_t>(op.inputs[0])].name;
}

TEST(ReadStorage, GivesStridesTheMemoryThatTorchCountsIn) {
  const std::string heads = "Tensor.reshape a 1 1 0 1 shape=(6,2,4) #1=(6,2,4)f32\n";
  const std::string turned = "torch.transpose b 1 1 1 2 dim0=0 dim1=1 #2=(2,6,4)f32\n";
  const std::string strided = " 9 size=(2,5,2,4) stride=(4,8,8,1) #9=(2,5,2,4)f32\n";
  EXPECT_EQ(StridedInput(heads + turned + "torch.as_strided c 1 1 2" + strided), "0");
  EXPECT_EQ(StridedInput(heads + "Tensor.permute b 1 1 1 2 dims=(1,0,2) #2=(2,6,4)f32\n" +
                         "Tensor.reshape d 1 1 2 3 shape=(2,3,2,4) #3=(2,3,2,4)f32\n" +
                         "torch.as_strided c 1 1 3" + strided),
            "0");
  // Merging what was turned copies: from there on the memory is another.
  EXPECT_EQ(StridedInput(heads + turned + "Tensor.reshape d 1 1 2 3 shape=(12,4) #3=(12,4)f32\n" +
                         "torch.as_strided c 1 1 3" + strided),
            "3");
}

TEST(ReadStorage, LeavesWhatTheTraceDoesNotTell) {
  const std::string strided = "torch.as_strided c 1 1 2 9 size=(2) stride=(1)\n";
  for (const char* turned : {
           "torch.transpose b 1 1 0 2 dim0=0 dim1=1\n",
           "torch.transpose b 1 1 0 2 dim0=0 dim1=9 #2=(6,1,8)f32\n",
           "torch.transpose b 1 1 0 2 dim0=0 dim1=1 #2=(6,?,8)f32\n",
           "torch.transpose b 1 1 0 2 dim0=0 dim1=1 #2=(48)f32\n",
           "Tensor.permute b 1 1 0 2 dims=(a,1,2) #2=(6,1,8)f32\n",
           "Tensor.permute b 1 1 0 2 #2=(6,1,8)f32\n",
       }) {
    SCOPED_TRACE(turned);
    EXPECT_EQ(StridedInput(turned + strided), "2");
  }
}

TEST(FlattenTuples, TurnsATupleIntoSeveralOutputs) {
  Graph graph = GraphFromText(
      "pnnx.Input pnnx_input_0 0 1 0\n"
      "nn.ReLU a 1 1 0 1\n"
      "nn.ReLU b 1 1 0 2\n"
      "prim::TupleConstruct inner 2 1 1 0 3\n"
      "prim::TupleConstruct outer 2 1 3 2 4\n"
      "pnnx.Output pnnx_output_0 1 0 4\n");
  FlattenTuples(graph, kNoEvaluation);
  RemoveDeadCode(graph, kNoEvaluation);
  EXPECT_EQ(Types(graph), "pnnx.Input nn.ReLU nn.ReLU pnnx.Output");
  const Operator& output = graph.operators.back();
  ASSERT_EQ(output.inputs.size(), 3u);
  EXPECT_EQ(graph.operands[static_cast<size_t>(output.inputs[0])].name, "1");
  EXPECT_EQ(graph.operands[static_cast<size_t>(output.inputs[1])].name, "0");
  EXPECT_EQ(graph.operands[static_cast<size_t>(output.inputs[2])].name, "2");
  EXPECT_TRUE(graph.Check().empty());
}

TEST(FlattenTuples, ForgetsPackingThatIsUnpackedAtOnce) {
  Graph graph = GraphFromText(
      "pnnx.Input pnnx_input_0 0 1 0\n"
      "nn.ReLU a 1 1 0 1\n"
      "prim::TupleConstruct pack 2 1 0 1 2\n"
      "prim::TupleUnpack unpack 1 2 2 3 4\n"
      "nn.Sigmoid b 1 1 4 5\n"
      "pnnx.Output pnnx_output_0 2 0 3 5\n");
  FlattenTuples(graph, kNoEvaluation);
  RemoveDeadCode(graph, kNoEvaluation);
  EXPECT_EQ(Types(graph), "pnnx.Input nn.ReLU nn.Sigmoid pnnx.Output");
  EXPECT_EQ(graph.operators[3].inputs[0], graph.operators[0].outputs[0]);
  EXPECT_EQ(graph.operators[2].inputs[0], graph.operators[1].outputs[0]);
}

TEST(FoldConstants, EvaluatesWhatDependsOnNoInput) {
  Graph graph = GraphFromText(
      "pnnx.Input pnnx_input_0 0 1 0\n"
      "pnnx.Attribute w 0 1 1 @data=(2)f32\n"
      "nn.ReLU constant 1 1 1 2\n"
      "nn.ReLU variable 1 1 0 3\n"
      "pnnx.Output pnnx_output_0 2 0 2 3\n");
  graph.operators[1].attributes["data"] = Tensor::From<float>({-1, 2}, {2});
  int calls = 0;
  const PassContext context{
      [&](const Operator& op, std::span<const Value> inputs) -> std::optional<std::vector<Value>> {
        ++calls;
        EXPECT_EQ(op.name, "constant");
        EXPECT_EQ(inputs.size(), 1u);
        return std::vector<Value>{Tensor::From<float>({0, 2}, {2})};
      }};
  FoldConstants(graph, context);
  EXPECT_EQ(calls, 1);
  RemoveDeadCode(graph, context);
  EXPECT_EQ(graph.FindOperator("w"), -1);
  const int folded = graph.FindOperator("constant");
  ASSERT_GE(folded, 0);
  EXPECT_EQ(graph.operators[static_cast<size_t>(folded)].type, "pnnx.Attribute");
  EXPECT_NE(graph.FindOperator("variable"), -1);
  EXPECT_TRUE(graph.Check().empty());
}

Graph ConvBatchNorm(bool conv_bias, bool affine) {
  const std::string bias = conv_bias ? "bias=True" : "bias=False";
  Graph graph = GraphFromText(
      "pnnx.Input pnnx_input_0 0 1 0 #0=(2,3,6,5)f32\n"
      "nn.Conv2d conv 1 1 0 1 " +
      bias +
      " dilation=(1,1) groups=1 in_channels=3 kernel_size=(3,3) out_channels=4 padding=(1,1)"
      " padding_mode=zeros stride=(1,1)\n"
      "nn.BatchNorm2d norm 1 1 1 2 affine=" +
      (affine ? "True" : "False") +
      " eps=1.000000e-3 num_features=4\n"
      "pnnx.Output pnnx_output_0 1 0 2\n");
  graph.operators[1].attributes["weight"] = RandomTensor(DType::kF32, {4, 3, 3, 3}, 1);
  if (conv_bias) graph.operators[1].attributes["bias"] = RandomTensor(DType::kF32, {4}, 2);
  auto& norm = graph.operators[2].attributes;
  norm["running_mean"] = RandomTensor(DType::kF32, {4}, 3);
  norm["running_var"] = RandomTensor(DType::kF32, {4}, 4, 0.1, 2);
  if (affine) {
    norm["weight"] = RandomTensor(DType::kF32, {4}, 5);
    norm["bias"] = RandomTensor(DType::kF32, {4}, 6);
  }
  return graph;
}

TEST(FuseConvBatchNorm, FoldsTheNormIntoTheWeights) {
  for (bool conv_bias : {false, true}) {
    for (bool affine : {false, true}) {
      Graph graph = ConvBatchNorm(conv_bias, affine);
      FuseConvBatchNorm(graph, kNoEvaluation);
      EXPECT_EQ(Types(graph), "pnnx.Input nn.Conv2d pnnx.Output");
      EXPECT_EQ(graph.operators[1].attributes.count("bias"), 1u);
      EXPECT_EQ(graph.operators[1].params.at("bias").text(), "True");
      EXPECT_TRUE(graph.Check().empty());
    }
  }
}

TEST(FuseConvBatchNorm, KeepsTheAnswer) {
  const Tensor input = RandomTensor(DType::kF32, {2, 3, 6, 5}, 7);
  LoadOptions plain;
  plain.disabled_passes = {"fuse-conv-batchnorm"};
  const auto expected =
      Session(RuntimeGraph::Build(ConvBatchNorm(true, true), plain)).Forward({input});
  const auto graph = RuntimeGraph::Build(ConvBatchNorm(true, true));
  EXPECT_EQ(graph->graph().FindOperator("norm"), -1);
  ExpectNear(Session(graph).Forward({input})[0], expected[0]);
}

TEST(FuseConvBatchNorm, KeepsTheDigitsOfF64) {
  const auto build = [](const LoadOptions& options) {
    Graph graph = ConvBatchNorm(true, true);
    graph.operands[0].dtype = DType::kF64;
    for (Operator& op : graph.operators) {
      for (auto& [name, tensor] : op.attributes) tensor = tensor.To(DType::kF64);
    }
    return RuntimeGraph::Build(std::move(graph), options);
  };
  const Tensor input = RandomTensor(DType::kF64, {2, 3, 6, 5}, 7);
  LoadOptions plain;
  plain.disabled_passes = {"fuse-conv-batchnorm"};
  const auto expected = Session(build(plain)).Forward({input});
  const auto graph = build({});
  EXPECT_EQ(graph->graph().FindOperator("norm"), -1);
  ExpectNear(Session(graph).Forward({input})[0], expected[0], {1e-13, 1e-13});
}

TEST(FuseConvBatchNorm, LeavesAConvolutionThatOthersRead) {
  Graph graph = ConvBatchNorm(false, true);
  graph.operators[3].inputs.push_back(graph.operators[1].outputs[0]);
  graph.Remove({});
  FuseConvBatchNorm(graph, kNoEvaluation);
  EXPECT_EQ(Types(graph), "pnnx.Input nn.Conv2d nn.BatchNorm2d pnnx.Output");
}

}  // namespace
}  // namespace oort
