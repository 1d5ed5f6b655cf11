// SPDX-License-Identifier: MIT
// Regions of NHWC images, and what their convolutions take in: the graph before, the graph
// after, and that the answers stay the same.
#include <gtest/gtest.h>

#include <map>

#include "graph/graph_builder.h"
#include "graph/passes/passes.h"
#include "oort/testing.h"

namespace oort {
namespace {

using testing::ExpectNear;
using testing::RandomTensor;

const PassContext kNoConstants{
    [](const Operator&, std::span<const Value>) { return std::optional<std::vector<Value>>(); }};

/// Gives each convolution named like {"conv1", (out, in, h, w)} its weight and bias.
Graph WithWeights(const std::string& lines, const std::map<std::string, Shape>& weights) {
  Graph graph = GraphFromText(lines);
  uint64_t seed = 1;
  for (const auto& [name, shape] : weights) {
    Operator& op = graph.operators[static_cast<size_t>(graph.FindOperator(name))];
    op.attributes["weight"] = RandomTensor(DType::kF32, shape, seed++);
    op.attributes["bias"] = RandomTensor(DType::kF32, {shape[0]}, seed++);
    op.params["padding"] =
        Parameter("(" + std::to_string(shape[2] / 2) + "," + std::to_string(shape[3] / 2) + ")");
  }
  return graph;
}

/// conv1, a shortcut over conv2, and a pooling: what a residual network is made of.
Graph Residual() {
  return WithWeights(
      "pnnx.Input pnnx_input_0 0 1 0 #0=(1,3,8,9)f32\n"
      "nn.Conv2d conv1 1 1 0 1 $input=0 #0=(1,3,8,9)f32 #1=(1,20,8,9)f32\n"
      "nn.ReLU relu1 1 1 1 2 #1=(1,20,8,9)f32 #2=(1,20,8,9)f32\n"
      "nn.Conv2d conv2 1 1 2 3 $input=2 #2=(1,20,8,9)f32 #3=(1,20,8,9)f32\n"
      "pnnx.Expression sum 2 1 3 2 4 expr=add(@0,@1) #3=(1,20,8,9)f32 #2=(1,20,8,9)f32 "
      "#4=(1,20,8,9)f32\n"
      "nn.SiLU silu 1 1 4 5 #4=(1,20,8,9)f32 #5=(1,20,8,9)f32\n"
      "nn.MaxPool2d pool 1 1 5 6 ceil_mode=False dilation=(1,1) kernel_size=(2,2) padding=(0,0) "
      "return_indices=False stride=(2,2) #5=(1,20,8,9)f32 #6=(1,20,4,4)f32\n"
      "pnnx.Output pnnx_output_0 1 0 6 #6=(1,20,4,4)f32\n",
      {{"conv1", {20, 3, 3, 3}}, {"conv2", {20, 20, 1, 1}}});
}

void ExpectSameWithoutPasses(Graph (*make)(), const Tensor& input) {
  LoadOptions plain;
  plain.disabled_passes = {"nhwc", "fuse-conv-epilogue"};
  const auto expected = Session(RuntimeGraph::Build(make(), plain)).Forward({input});
  const auto got = Session(RuntimeGraph::Build(make())).Forward({input});
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) ExpectNear(got[i], expected[i], {1e-4, 1e-5});
}

TEST(Nhwc, MovesTheChannelsOnlyAtTheBorders) {
  Graph graph = Residual();
  Nhwc(graph, kNoConstants);
  EXPECT_TRUE(graph.Check().empty());
  std::map<std::string, int> counts;
  for (const Operator& op : graph.operators) ++counts[op.type];
  EXPECT_EQ(counts["nhwc.enter"], 1);
  EXPECT_EQ(counts["nhwc.leave"], 1);
  EXPECT_EQ(counts["nhwc.Conv2d"], 2);
  EXPECT_EQ(counts["nhwc.MaxPool2d"], 1);
  EXPECT_EQ(counts["nn.SiLU"], 1);
  EXPECT_EQ(counts["pnnx.Expression"], 1);
}

TEST(Nhwc, KeepsNamesAndHintsOfTheBorders) {
  Graph graph = Residual();
  Nhwc(graph, kNoConstants);
  const Operator& output = graph.operators[static_cast<size_t>(graph.OutputOperators()[0])];
  const Operand& last = graph.operands[static_cast<size_t>(output.inputs[0])];
  EXPECT_EQ(last.name, "6");
  EXPECT_EQ(last.shape, Shape({1, 20, 4, 4}));
  const int inside = graph.FindOperand("5.nhwc");
  ASSERT_GE(inside, 0);
  EXPECT_EQ(graph.operands[static_cast<size_t>(inside)].shape, Shape({1, 8, 9, 20}));
}

TEST(Nhwc, KeepsTheAnswerAtEverySizeAndRank) {
  ExpectSameWithoutPasses(Residual, RandomTensor(DType::kF32, {1, 3, 8, 9}, 5));
  ExpectSameWithoutPasses(Residual, RandomTensor(DType::kF32, {3, 3, 13, 6}, 6));
  ExpectSameWithoutPasses(Residual, RandomTensor(DType::kF32, {3, 7, 7}, 7));
}

TEST(Nhwc, LeavesOtherDTypesAndPaddings) {
  for (const char* what : {"dtype", "padding"}) {
    Graph graph = Residual();
    for (const char* name : {"conv1", "conv2"}) {
      Operator& conv = graph.operators[static_cast<size_t>(graph.FindOperator(name))];
      if (what == std::string("dtype")) {
        conv.attributes["weight"] = conv.attributes["weight"].To(DType::kF64);
      } else {
        conv.params["padding_mode"] = Parameter("circular");
      }
    }
    const std::string before = Types(graph);
    Nhwc(graph, kNoConstants);
    EXPECT_EQ(Types(graph), before) << what;
  }
}

/// What shufflenet is made of: channels are joined, shuffled and cut, and pixels averaged.
Graph Shuffled() {
  return WithWeights(
      "pnnx.Input pnnx_input_0 0 1 0 #0=(1,3,8,9)f32\n"
      "nn.Conv2d conv1 1 1 0 1 $input=0 #0=(1,3,8,9)f32 #1=(1,6,8,9)f32\n"
      "nn.Conv2d conv2 1 1 1 2 $input=1 #1=(1,6,8,9)f32 #2=(1,4,8,9)f32\n"
      "torch.cat cat 2 1 1 2 3 dim=1 #1=(1,6,8,9)f32 #2=(1,4,8,9)f32 #3=(1,10,8,9)f32\n"
      "nn.ChannelShuffle shuffle 1 1 3 4 groups=2 $input=3 #3=(1,10,8,9)f32 #4=(1,10,8,9)f32\n"
      "torch.chunk chunk 1 2 4 5 6 chunks=2 dim=1 $input=4 #4=(1,10,8,9)f32 #5=(1,5,8,9)f32 "
      "#6=(1,5,8,9)f32\n"
      "pnnx.Expression product 2 1 5 6 7 expr=mul(@0,@1) #5=(1,5,8,9)f32 #6=(1,5,8,9)f32 "
      "#7=(1,5,8,9)f32\n"
      "torch.mean mean 1 1 7 8 dim=(2,3) keepdim=False $input=7 #7=(1,5,8,9)f32 #8=(1,5)f32\n"
      "pnnx.Output pnnx_output_0 1 0 8 #8=(1,5)f32\n",
      {{"conv1", {6, 3, 3, 3}}, {"conv2", {4, 6, 1, 1}}});
}

TEST(Nhwc, JoinsShufflesCutsAndAveragesInside) {
  Graph graph = Shuffled();
  Nhwc(graph, kNoConstants);
  EXPECT_TRUE(graph.Check().empty());
  std::map<std::string, int> counts;
  for (const Operator& op : graph.operators) ++counts[op.type];
  EXPECT_EQ(counts["nhwc.enter"], 1);
  EXPECT_EQ(counts["nhwc.leave"], 0);
  for (const char* type : {"cat", "ChannelShuffle", "chunk", "mean"}) {
    EXPECT_EQ(counts[std::string("nhwc.") + type], 1) << type;
  }
  ExpectSameWithoutPasses(Shuffled, RandomTensor(DType::kF32, {1, 3, 8, 9}, 5));
  ExpectSameWithoutPasses(Shuffled, RandomTensor(DType::kF32, {2, 3, 5, 4}, 6));
}

/// A decoder: images grow between convolutions.
Graph Upsampled() {
  return WithWeights(
      "pnnx.Input pnnx_input_0 0 1 0 #0=(1,3,4,5)f32\n"
      "nn.Conv2d conv1 1 1 0 1 $input=0 #0=(1,3,4,5)f32 #1=(1,6,4,5)f32\n"
      "F.interpolate up1 1 1 1 2 align_corners=False antialias=False mode=bilinear "
      "scale_factor=(2.0,2.0) size=None $input=1 #1=(1,6,4,5)f32 #2=(1,6,8,10)f32\n"
      "nn.Upsample up2 1 1 2 3 mode=nearest scale_factor=None size=(9,20) #2=(1,6,8,10)f32 "
      "#3=(1,6,9,20)f32\n"
      "nn.Conv2d conv2 1 1 3 4 $input=3 #3=(1,6,9,20)f32 #4=(1,4,9,20)f32\n"
      "pnnx.Output pnnx_output_0 1 0 4 #4=(1,4,9,20)f32\n",
      {{"conv1", {6, 3, 3, 3}}, {"conv2", {4, 6, 1, 1}}});
}

TEST(Nhwc, ResizesInside) {
  Graph graph = Upsampled();
  Nhwc(graph, kNoConstants);
  EXPECT_TRUE(graph.Check().empty());
  for (const char* name : {"up1", "up2"}) {
    const Operator& op = graph.operators[static_cast<size_t>(graph.FindOperator(name))];
    EXPECT_EQ(op.type, "nhwc.Upsample");
  }
  ExpectSameWithoutPasses(Upsampled, RandomTensor(DType::kF32, {2, 3, 4, 5}, 5));
}

/// Indices of a maximum count along NCHW planes, and an axis may be computed.
TEST(Nhwc, LeavesOperatorsThatHaveNoTwin) {
  for (const char* line :
       {"nn.MaxPool2d op 1 2 1 2 3 kernel_size=(2,2) return_indices=True #1=(1,3,4,4)f32\n",
        "torch.mean op 1 1 1 2 dim=(3) keepdim=False #1=(1,3,4,4)f32\n",
        "torch.mean op 1 1 1 2 dim=None keepdim=False #1=(1,3,4,4)f32\n",
        "F.softmax op 1 1 1 2 dim=None #1=(1,3,4,4)f32\n"}) {
    Graph graph = WithWeights(std::string("pnnx.Input pnnx_input_0 0 1 0 #0=(1,3,4,4)f32\n"
                                          "nn.Conv2d conv1 1 1 0 1 $input=0 #0=(1,3,4,4)f32 "
                                          "#1=(1,3,4,4)f32\n") +
                                  line + "pnnx.Output pnnx_output_0 1 0 2\n",
                              {{"conv1", {3, 3, 3, 3}}});
    Nhwc(graph, kNoConstants);
    const Operator& op = graph.operators[static_cast<size_t>(graph.FindOperator("op"))];
    EXPECT_FALSE(op.type.starts_with("nhwc.")) << line;
  }
}

/// A value that both a convolution and something unknown read: the NCHW form comes back.
TEST(Nhwc, GivesOthersTheFormThatTheyKnow) {
  Graph graph = WithWeights(
      "pnnx.Input pnnx_input_0 0 1 0 #0=(1,3,4,4)f32\n"
      "nn.Conv2d conv1 1 1 0 1 $input=0 #0=(1,3,4,4)f32 #1=(1,3,4,4)f32\n"
      "nn.Conv2d conv2 1 1 1 2 $input=1 #1=(1,3,4,4)f32 #2=(1,3,4,4)f32\n"
      "torch.flatten flat 1 1 1 3 end_dim=-1 start_dim=1 $input=1 #1=(1,3,4,4)f32 #3=(1,48)f32\n"
      "pnnx.Output pnnx_output_0 2 0 2 3\n",
      {{"conv1", {3, 3, 3, 3}}, {"conv2", {3, 3, 1, 1}}});
  Nhwc(graph, kNoConstants);
  EXPECT_TRUE(graph.Check().empty());
  EXPECT_NE(graph.FindOperator("leave_1"), -1);
  EXPECT_NE(graph.FindOperator("leave_2"), -1);
}

TEST(FuseConvEpilogue, TakesInTheSumAndTheActivation) {
  Graph graph = Residual();
  Nhwc(graph, kNoConstants);
  FuseConvEpilogue(graph, kNoConstants);
  EXPECT_TRUE(graph.Check().empty());
  for (const char* gone : {"relu1", "sum", "silu"}) EXPECT_EQ(graph.FindOperator(gone), -1) << gone;
  const Operator& conv = graph.operators[static_cast<size_t>(graph.FindOperator("conv2"))];
  EXPECT_EQ(conv.inputs.size(), 2u);
  EXPECT_EQ(conv.input_names, (std::vector<std::string>{"input", "addend"}));
  EXPECT_EQ(conv.params.at("activation").text(), "silu");
}

/// conv1 is read twice: by the sum and by the outside.
TEST(FuseConvEpilogue, LeavesAConvolutionThatOthersRead) {
  Graph graph = Residual();
  graph.operators.back().inputs.push_back(graph.FindOperand("3"));
  graph.Remove({});
  Nhwc(graph, kNoConstants);
  FuseConvEpilogue(graph, kNoConstants);
  EXPECT_NE(graph.FindOperator("sum"), -1);
  EXPECT_EQ(graph.FindOperator("relu1"), -1);
}

TEST(FuseConvEpilogue, LeavesASumThatSpreadsTheOther) {
  Graph graph = WithWeights(
      "pnnx.Input pnnx_input_0 0 1 0 #0=(1,3,4,4)f32\n"
      "pnnx.Input pnnx_input_1 0 1 1 #1=(1,3,1,1)f32\n"
      "nn.Conv2d conv1 1 1 0 2 $input=0 #0=(1,3,4,4)f32 #2=(1,3,4,4)f32\n"
      "pnnx.Expression sum 2 1 2 1 3 expr=add(@0,@1) #2=(1,3,4,4)f32 #1=(1,3,1,1)f32 "
      "#3=(1,3,4,4)f32\n"
      "pnnx.Output pnnx_output_0 1 0 3\n",
      {{"conv1", {3, 3, 3, 3}}});
  Nhwc(graph, kNoConstants);
  FuseConvEpilogue(graph, kNoConstants);
  EXPECT_NE(graph.FindOperator("sum"), -1);
}

}  // namespace
}  // namespace oort
