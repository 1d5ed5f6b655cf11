// SPDX-License-Identifier: MIT
// Networks that compute in 16 bits: the graph before, the graph after, and what the answers lose.
#include <gtest/gtest.h>

#include <map>

#include "cpu/lanes_kernels.h"
#include "graph/graph_builder.h"
#include "graph/passes/passes.h"
#include "oort/testing.h"

namespace oort {
namespace {

PassContext Narrowing(DType dtype) {
  PassContext context{
      [](const Operator&, std::span<const Value>) { return std::optional<std::vector<Value>>(); }};
  context.narrow = dtype;
  context.on_gpu = true;
  return context;
}

PassContext NarrowingOnCpu() {
  PassContext context = Narrowing(DType::kF16);
  context.on_gpu = false;
  return context;
}

Graph ConvolutionsAndProduct() {
  Graph graph = GraphFromText(
      "pnnx.Input pnnx_input_0 0 1 0 #0=(1,3,8,9)f32\n"
      "nn.Conv2d conv1 1 1 0 1 $input=0 in_channels=3 #0=(1,3,8,9)f32 #1=(1,20,8,9)f32\n"
      "nn.ReLU relu1 1 1 1 2 #1=(1,20,8,9)f32 #2=(1,20,8,9)f32\n"
      "nn.Conv2d conv2 1 1 2 3 $input=2 #2=(1,20,8,9)f32 #3=(1,20,8,9)f32\n"
      "nn.AdaptiveAvgPool2d pool 1 1 3 4 output_size=(1,1) #3=(1,20,8,9)f32 #4=(1,20,1,1)f32\n"
      "torch.flatten flat 1 1 4 5 start_dim=1 end_dim=-1 $input=4 #4=(1,20,1,1)f32 #5=(1,20)f32\n"
      "nn.Linear fc 1 1 5 6 #5=(1,20)f32 #6=(1,7)f32\n"
      "torch.cumsum sums 1 1 6 7 dim=1 $input=6 #6=(1,7)f32 #7=(1,7)f32\n"
      "pnnx.Output pnnx_output_0 1 0 7 #7=(1,7)f32\n");
  const std::map<std::string, Shape> weights = {
      {"conv1", {20, 3, 3, 3}}, {"conv2", {20, 20, 1, 1}}, {"fc", {7, 20}}};
  uint64_t seed = 1;
  for (const auto& [name, shape] : weights) {
    Operator& op = graph.operators[static_cast<size_t>(graph.FindOperator(name))];
    op.attributes["weight"] = testing::RandomTensor(DType::kF32, shape, seed++);
    op.attributes["bias"] = testing::RandomTensor(DType::kF32, {shape[0]}, seed++);
    if (name == "conv1") op.params["padding"] = Parameter("(1,1)");
  }
  return graph;
}

std::map<std::string, int> Counts(const Graph& graph) {
  std::map<std::string, int> counts;
  for (const Operator& op : graph.operators) ++counts[op.type];
  return counts;
}

TEST(NarrowFloats, RoundsWhereImagesEnterAndComesBackBeforeWhatNeedsF32) {
  Graph graph = ConvolutionsAndProduct();
  const PassContext context = Narrowing(DType::kF16);
  Nhwc(graph, context);
  FuseConvEpilogue(graph, context);
  NarrowFloats(graph, context);
  EXPECT_TRUE(graph.Check().empty());
  std::map<std::string, int> counts = Counts(graph);
  EXPECT_EQ(counts["nhwc.pack"], 1);
  EXPECT_EQ(counts["nhwc.enter"], 0);
  EXPECT_EQ(counts["Tensor.to"], 1);  // before the sums
  for (const Operator& op : graph.operators) {
    if (op.name == "conv1") {
      EXPECT_EQ(op.attributes.at("weight").shape(), (Shape{20, 4, 3, 3}));
      EXPECT_EQ(op.params.at("in_channels").text(), "4");
    }
    if (op.name == "fc") {
      EXPECT_EQ(op.attributes.at("weight").dtype(), DType::kF16);
      EXPECT_EQ(graph.operands[static_cast<size_t>(op.inputs[0])].dtype, DType::kF16);
    }
    if (op.name == "sums") {
      EXPECT_EQ(graph.operands[static_cast<size_t>(op.inputs[0])].dtype, DType::kF32);
    }
  }
}

TEST(NarrowFloats, IsNothingWithoutADType) {
  Graph graph = ConvolutionsAndProduct();
  const std::map<std::string, int> before = Counts(graph);
  NarrowFloats(graph, Narrowing(DType::kNull));
  EXPECT_EQ(Counts(graph), before);
}

TEST(NarrowFloats, WhatTheDeviceCannotRunStaysInF32) {
  Graph graph = ConvolutionsAndProduct();
  PassContext context = Narrowing(DType::kBF16);
  context.has_layer = [](std::string_view type) { return type == "nn.Linear"; };
  NarrowFloats(graph, context);
  EXPECT_TRUE(graph.Check().empty());
  for (const Operator& op : graph.operators) {
    const bool narrow =
        graph.operands[static_cast<size_t>(op.outputs.empty() ? op.inputs[0] : op.outputs[0])]
            .dtype == DType::kBF16;
    EXPECT_EQ(narrow, op.name == "fc" || (op.type == "Tensor.to" && op.name.ends_with("bf16")))
        << op.name;
  }
}

TEST(NarrowFloats, TheAnswersLoseWhatRoundingCosts) {
  const Tensor input = testing::RandomTensor(DType::kF32, {2, 3, 8, 9}, 5);
  const auto expected = Session(RuntimeGraph::Build(ConvolutionsAndProduct())).Forward({input});
  for (DType dtype : {DType::kF16, DType::kBF16}) {
    Graph graph = ConvolutionsAndProduct();
    const PassContext context = Narrowing(dtype);
    Nhwc(graph, context);
    FuseConvEpilogue(graph, context);
    NarrowFloats(graph, context);
    LoadOptions plain;
    plain.disabled_passes = {"all"};
    const auto got = Session(RuntimeGraph::Build(std::move(graph), plain)).Forward({input});
    ASSERT_EQ(got[0].dtype(), DType::kF32);
    const double tolerance = dtype == DType::kF16 ? 1e-2 : 8e-2;
    testing::ExpectNear(got[0], expected[0], {tolerance, tolerance * 4});
  }
}

TEST(NarrowFloats, OnACpuConvolutionsAndWhatFollowsThemAreF16) {
  Graph graph = ConvolutionsAndProduct();
  const PassContext context = NarrowingOnCpu();
  Nhwc(graph, context);
  FuseConvEpilogue(graph, context);
  NarrowFloats(graph, context);
  EXPECT_TRUE(graph.Check().empty());
  for (const Operator& op : graph.operators) {
    if (op.outputs.empty() || op.type == "pnnx.Input") continue;
    const bool wide = op.name == "sums" || op.type == "Tensor.to";
    EXPECT_EQ(graph.operands[static_cast<size_t>(op.outputs[0])].dtype,
              wide ? DType::kF32 : DType::kF16)
        << op.name;
    // Channels are not filled up, and layers round their weights themselves.
    if (op.name == "conv1") {
      EXPECT_EQ(op.attributes.at("weight").shape(), (Shape{20, 3, 3, 3}));
    }
    if (op.name == "fc") {
      EXPECT_EQ(op.attributes.at("weight").dtype(), DType::kF32);
    }
  }
}

TEST(NarrowFloats, OnACpuWhatHasNoKernelsForF16StaysInF32) {
  Graph graph = GraphFromText(
      "pnnx.Input pnnx_input_0 0 1 0 #0=(1,8,6,6)f32\n"
      "nn.Conv2d conv 1 1 0 1 $input=0 #0=(1,8,6,6)f32 #1=(1,8,6,6)f32\n"
      "nn.Upsample up 1 1 1 2 scale_factor=(2.0,2.0) mode=nearest #1=(1,8,6,6)f32 "
      "#2=(1,8,12,12)f32\n"
      "pnnx.Output pnnx_output_0 1 0 2 #2=(1,8,12,12)f32\n");
  Operator& conv = graph.operators[static_cast<size_t>(graph.FindOperator("conv"))];
  conv.attributes["weight"] = testing::RandomTensor(DType::kF32, {8, 8, 1, 1});
  const PassContext context = NarrowingOnCpu();
  Nhwc(graph, context);
  NarrowFloats(graph, context);
  EXPECT_TRUE(graph.Check().empty());
  const Operator& up = graph.operators[static_cast<size_t>(graph.FindOperator("up"))];
  EXPECT_EQ(up.type, "nhwc.Upsample");
  EXPECT_EQ(graph.operands[static_cast<size_t>(up.inputs[0])].dtype, DType::kF32);
}

TEST(NarrowFloats, ACpuComputesInF16OrSaysWhatElseThereIs) {
  const Tensor input = testing::RandomTensor(DType::kF32, {2, 3, 8, 9}, 5);
  const auto expected = Session(RuntimeGraph::Build(ConvolutionsAndProduct())).Forward({input});
  for (const Isa isa : SupportedIsas()) {
    LoadOptions options;
    options.isa = isa;
    options.precision = Precision::kF16;
    if (HasF16Arithmetic(isa)) {
      for (const int threads : {1, 2}) {
        Session session(RuntimeGraph::Build(ConvolutionsAndProduct(), options),
                        {.threads = threads});
        const auto got = session.Forward({input});
        ASSERT_EQ(got[0].dtype(), DType::kF32);
        testing::ExpectNear(got[0], expected[0], {1e-2, 4e-2});
      }
      continue;
    }
    try {
      RuntimeGraph::Build(ConvolutionsAndProduct(), options);
      FAIL() << "f16 was taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
      EXPECT_NE(std::string(error.what()).find("bf16"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace oort
