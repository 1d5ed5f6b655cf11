// SPDX-License-Identifier: MIT
// Linear layers whose inputs become bytes row by row while the network runs.
#include <gtest/gtest.h>

#include "quantize/networks.h"
#include "quantize/quantize.h"

namespace oort::quantize {
namespace {

/// One layer of an encoder of text, without its attention: what is linear, and what is between.
std::string Encoder() {
  const std::string norm = "elementwise_affine=False eps=1.0e-05 normalized_shape=(32)\n";
  return Input("(2,9,32)") + Linear("query", 32, 32, "x", "a") + Linear("key", 32, 32, "x", "b") +
         "pnnx.Expression mix 2 1 a b c expr=mul(@0,@1)\n" + "nn.LayerNorm norm1 1 1 c d " + norm +
         Linear("up", 32, 128, "d", "e") + "nn.GELU act 1 1 e f approximate=none\n" +
         Linear("down", 128, 32, "f", "g") + "pnnx.Expression sum 2 1 g d h expr=add(@0,@1)\n" +
         "nn.LayerNorm norm2 1 1 h i " + norm + Output("i");
}

QuantizeOptions Judged() {
  QuantizeOptions options;
  options.recipe.dynamic = true;
  options.threads = 1;
  options.test.count = 4;
  options.test.read = [](size_t i) {
    return std::vector<Tensor>{testing::RandomTensor(DType::kF32, Shape{2, 9, 32}, 50 + i, -2, 2)};
  };
  options.test.name = [](size_t i) { return std::to_string(i); };
  return options;
}

TEST(DynamicTest, NeedsNoSamples) {
  const Graph graph = NetworkOf(Encoder());
  QuantizeOptions options;
  options.recipe.dynamic = true;
  const QuantizeResult blind = Quantize(graph, options);
  EXPECT_EQ(blind.report.judged, 0u);
  EXPECT_EQ(blind.report.method, "row");
  const QuantizeResult judged = Quantize(graph, Judged());
  EXPECT_EQ(PnnxParamText(judged.graph), PnnxParamText(blind.graph));
  EXPECT_GT(judged.report.result.error.Cosine(), 0.995);
  EXPECT_GT(judged.report.result.error.Sqnr(), 25);
  EXPECT_LT(judged.report.result.error.Sqnr(), 100) << "nothing was rounded";
  // Who reads the same operand shares its rows.
  const std::string types = Types(judged.graph);
  size_t rows = 0;
  for (size_t at = 0; (at = types.find("DynamicQuantize", at)) != std::string::npos; ++at) ++rows;
  EXPECT_EQ(rows, 3u) << types;
  EXPECT_EQ(judged.report.layers.size(), 4u);
  EXPECT_TRUE(judged.graph.Check().empty());
}

TEST(DynamicTest, RecipesKeepLayersFloat) {
  QuantizeOptions options = Judged();
  options.analyse = true;
  options.recipe.rules.push_back({.match = "down",
                                  .type = "",
                                  .keep_float = true,
                                  .reason = "it sees outliers",
                                  .method = {}});
  const QuantizeResult result = Quantize(NetworkOf(Encoder()), options);
  EXPECT_EQ(result.report.layers[3].why_float, "it sees outliers");
  EXPECT_FALSE(result.report.layers[0].alone.empty());
  const Recipe again = ParseRecipe(RecipeText(result.recipe));
  EXPECT_TRUE(again.dynamic);
  QuantizeOptions replay;
  replay.recipe = again;
  EXPECT_EQ(PnnxParamText(Quantize(NetworkOf(Encoder()), replay).graph),
            PnnxParamText(result.graph));
}

TEST(DynamicTest, ConvolutionsStayFloat) {
  const QuantizeResult result = [] {
    QuantizeOptions options;
    options.recipe.dynamic = true;
    return Quantize(NetworkOf(Residual()), options);
  }();
  EXPECT_EQ(result.report.layers[0].why_float, "scales of rows are for linear layers");
  EXPECT_TRUE(result.report.layers[2].quantized);
}

}  // namespace
}  // namespace oort::quantize
