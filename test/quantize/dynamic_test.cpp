// SPDX-License-Identifier: MIT
// Linear layers whose inputs become bytes row by row while the network runs.
#include <gtest/gtest.h>

#include <cmath>

#include "oort/pnnx.h"
#include "quantize/networks.h"
#include "quantize/quantize.h"
#include "test/kit/exact.h"
#include "test/kit/files.h"

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
  EXPECT_EQ(result.report.layers[0].why_float,
            "scales of rows are for linear and recurrent layers and attention");
  EXPECT_TRUE(result.report.layers[2].quantized);
}

std::string Matrix(const std::string& name, int out, int in) {
  return " @" + name + "=(" + std::to_string(out) + "," + std::to_string(in) + ")f32";
}
std::string Vector(const std::string& name, int size) {
  return " @" + name + "=(" + std::to_string(size) + ")f32";
}

/// Of two layers in both directions.
std::string Lstm() {
  std::string line =
      "nn.LSTM lstm 1 1 x a batch_first=True bias=True bidirectional=True hidden_size=20 "
      "input_size=12 num_layers=2 proj_size=0";
  for (const std::string suffix : {"_l0", "_l0_reverse", "_l1", "_l1_reverse"}) {
    line += Matrix("weight_ih" + suffix, 80, suffix[2] == '0' ? 12 : 40);
    line += Matrix("weight_hh" + suffix, 80, 20);
    line += Vector("bias_ih" + suffix, 80) + Vector("bias_hh" + suffix, 80);
  }
  return line + " #a=(2,9,40)f32\n";
}

/// Layers that have several matrices, and a linear one.
std::string Tagger() {
  return Input("(2,9,12)") + Lstm() +
         "nn.MultiheadAttention mix 1 1 a b add_bias_kv=False add_zero_attn=False batch_first=True "
         "bias=True embed_dim=40 kdim=40 num_heads=4 vdim=40" +
         Vector("in_proj_bias", 120) + Matrix("in_proj_weight", 120, 40) +
         Vector("out_proj.bias", 40) + Matrix("out_proj.weight", 40, 40) + "\n" +
         "nn.GRU gru 1 1 b c batch_first=True bias=True bidirectional=False hidden_size=16 "
         "input_size=40 num_layers=1" +
         Matrix("weight_ih_l0", 48, 40) + Matrix("weight_hh_l0", 48, 16) +
         Vector("bias_ih_l0", 48) + Vector("bias_hh_l0", 48) + " #c=(2,9,16)f32\n" +
         Linear("head", 16, 7, "c", "d") + Output("d");
}

/// However small its layers are.
QuantizeOptions JudgedTagger() {
  QuantizeOptions options = Judged();
  options.recipe.rules.push_back(
      {.match = "gru", .type = "", .keep_float = false, .reason = "", .method = {}});
  options.recipe.rules.push_back(
      {.match = "lstm", .type = "", .keep_float = false, .reason = "", .method = {}});
  options.test.read = [](size_t i) {
    return std::vector<Tensor>{testing::RandomTensor(DType::kF32, Shape{2, 9, 12}, 50 + i, -2, 2)};
  };
  return options;
}

TEST(DynamicTest, RecurrentLayersAndAttention) {
  QuantizeOptions options = JudgedTagger();
  options.analyse = true;
  options.measure = true;
  const Graph graph = NetworkOf(Tagger());
  const QuantizeResult result = Quantize(graph, options);
  const QuantizeReport& report = result.report;
  ASSERT_EQ(report.layers.size(), 4u);
  const char* kTypes[] = {"nn.LSTM", "nn.MultiheadAttention", "nn.GRU", "nn.Linear"};
  for (size_t i = 0; i < 4; ++i) {
    const LayerReport& layer = report.layers[i];
    EXPECT_EQ(layer.type, kTypes[i]);
    EXPECT_TRUE(layer.quantized) << layer.why_float;
    EXPECT_GT(layer.weight_sqnr, 35);
    EXPECT_LT(layer.weight_sqnr, 60);
    EXPECT_GT(layer.alone.Sqnr(), 20) << layer.name;
    EXPECT_LT(layer.alone.Sqnr(), 80) << layer.name << " was left as it was";
    EXPECT_GT(layer.accumulated.Sqnr(), 20) << layer.name;
    EXPECT_GT(report.speed.layers[i].seconds, 0) << layer.name;
  }
  EXPECT_GT(report.result.error.Cosine(), 0.99);
  EXPECT_LT(report.weights, report.float_weights / 2);
  for (const char* type :
       {"oort.DynamicLSTM", "oort.DynamicMultiheadAttention", "oort.DynamicGRU"}) {
    EXPECT_NE(Types(result.graph).find(type), std::string::npos) << type;
  }
  EXPECT_TRUE(result.graph.Check().empty());
  // The file has the bytes, and the recipe makes them again.
  const testing::TemporaryFolder dir;
  WritePnnx(result.graph, dir / "n.pnnx.param", dir / "n.pnnx.bin");
  const std::vector<Tensor> input = options.test.read(0);
  testing::ExpectSameBytes(
      Session(RuntimeGraph::Load(dir / "n.pnnx.param", dir / "n.pnnx.bin")).Forward(input)[0],
      Session(RuntimeGraph::Build(result.graph)).Forward(input)[0]);
  QuantizeOptions replay;
  replay.recipe = ParseRecipe(RecipeText(result.recipe));
  EXPECT_EQ(PnnxParamText(Quantize(graph, replay).graph), PnnxParamText(result.graph));
}

TEST(DynamicTest, RulesKeepRecurrentLayersFloat) {
  QuantizeOptions options = JudgedTagger();
  options.recipe.symmetric = true;
  options.recipe.rules[1] = {
      .match = "", .type = "nn.LSTM", .keep_float = true, .reason = "slow", .method = {}};
  const QuantizeResult result = Quantize(NetworkOf(Tagger()), options);
  EXPECT_EQ(result.report.layers[0].why_float, "slow");
  const std::string text = PnnxParamText(result.graph);
  EXPECT_NE(text.find("nn.LSTM "), std::string::npos);
  EXPECT_NE(text.find("oort.DynamicGRU "), std::string::npos);
  EXPECT_NE(text.find("symmetric=True"), std::string::npos);
}

TEST(DynamicTest, SmallStepsStayFloat) {
  QuantizeOptions options;
  options.recipe.dynamic = true;
  const QuantizeResult result = Quantize(NetworkOf(Tagger()), options);
  const std::vector<LayerReport>& layers = result.report.layers;
  EXPECT_EQ(layers[0].why_float, "its steps are so small that bytes would be slower");
  EXPECT_TRUE(layers[1].quantized);
  EXPECT_EQ(layers[2].why_float, layers[0].why_float);
}

void ExpectRefused(const Graph& graph, const QuantizeOptions& options, const std::string& says) {
  try {
    Quantize(graph, options);
    ADD_FAILURE() << "nothing was refused";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(says), std::string::npos) << error.what();
  }
}

TEST(DynamicTest, RefusesWhatRecurrentLayersLack) {
  QuantizeOptions options = JudgedTagger();
  options.recipe.layers["gru"].correction = {1, 2, 3};
  ExpectRefused(NetworkOf(Tagger()), options, "'gru' is an nn.GRU, which has neither 'rounding'");
  options = JudgedTagger();
  Graph graph = NetworkOf(Tagger());
  for (Operator& op : graph.operators) {
    if (op.name == "gru") op.attributes["weight_hh_l0"].data<float>()[5] = NAN;
  }
  ExpectRefused(graph, options, "operator 'gru' (nn.GRU");
  const std::string alone = Input("(2,9,12)") + Lstm() + Output("a");
  ExpectRefused(NetworkOf(alone), {}, "--dynamic also takes its recurrent layers");
  QuantizeOptions plain;
  plain.recipe.dynamic = true;
  plain.recipe.rules.push_back(
      {.match = "lost*", .type = "", .keep_float = true, .reason = "", .method = {}});
  ExpectRefused(NetworkOf(alone), plain, "matches no convolution, linear or recurrent layer");
}

}  // namespace
}  // namespace oort::quantize
