// SPDX-License-Identifier: MIT
#include "graph/pass_check.h"
#include "graph/passes/passes.h"

namespace oort {
namespace {

Graph Picture(const std::string& channels) {
  return GraphFromText(
      "pnnx.Input in 0 1 x #x=(1," + channels + ",8,9)f32\n" +
      "oort.Quantize q 1 1 x xq scale=0.02 zero_point=100 dtype=u8 #xq=(1," + channels +
      ",8,9)u8\n"
      "nhwc.enter e 1 1 xq xe image=True #xe=(1,8,9," +
      channels +
      ")u8\n"
      "nhwc.IntegerConv2d c 1 1 xe y @weight=(5," +
      channels +
      ",3,3)i8 @scales=(5)f32 input_scale=0.02 input_zero_point=100 dtype=f32 padding=(1,1) "
      "#y=(1,8,9,5)f32\n"
      "pnnx.Output out 1 0 y\n");
}

Graph Packed(const std::string& channels, bool on_gpu) {
  Graph graph = Picture(channels);
  for (Operator& op : graph.operators) {
    for (auto& [name, tensor] : op.attributes) {
      tensor = name == "scales" ? testing::RandomTensor(DType::kF32, tensor.shape(), 7, 0.01, 0.02)
                                : testing::RandomTensor(DType::kI8, tensor.shape(), 8, -127, 127);
    }
  }
  PassContext context;
  context.on_gpu = on_gpu;
  PackBytes(graph, context);
  return graph;
}

TEST(PackBytes, QuantizesAndMovesAtOnce) {
  const Tensor x = testing::RandomTensor(DType::kF32, {2, 3, 8, 9});
  const Graph graph = Packed("3", true);
  EXPECT_EQ(graph.operators.size(), 4u);  // with both ports
  bool packs = false;
  for (const Operator& op : graph.operators) {
    packs = packs || op.type == "nhwc.Quantize";
    if (op.type != "nhwc.IntegerConv2d") continue;
    EXPECT_EQ(op.params.at("padding").text(), "0");
  }
  EXPECT_TRUE(packs);
  const Tensor want = Session(RuntimeGraph::Build(Packed("3", false))).Forward({x})[0];
  testing::ExpectNear(Session(RuntimeGraph::Build(graph)).Forward({x})[0], want, {0, 0});
}

TEST(PackBytes, LeavesWholeWordsAndTheCpuAlone) {
  EXPECT_EQ(Packed("4", true).operators.size(), 5u);
  EXPECT_EQ(Packed("3", false).operators.size(), 5u);
}

}  // namespace
}  // namespace oort
