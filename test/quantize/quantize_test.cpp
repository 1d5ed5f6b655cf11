// SPDX-License-Identifier: MIT
// From a float network and samples to one with bytes.
#include "quantize/quantize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "quantize/networks.h"

namespace oort::quantize {
namespace {

Samples RandomSamples(size_t count) {
  Samples samples;
  samples.count = count;
  samples.read = [](size_t index) {
    return std::vector<Tensor>{
        testing::RandomTensor(DType::kF32, Shape{1, 2, 8, 8}, 100 + index, -1, 1)};
  };
  samples.name = [](size_t index) { return "sample " + std::to_string(index); };
  return samples;
}

QuantizeOptions OptionsOf(size_t samples) {
  QuantizeOptions options;
  options.samples = RandomSamples(samples);
  options.threads = 1;
  return options;
}

std::string ErrorOf(const Graph& graph, const QuantizeOptions& options) {
  try {
    Quantize(graph, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(QuantizeTest, WritesWhatBytesMean) {
  const Graph graph = NetworkOf(Residual());
  const QuantizeResult result = Quantize(graph, OptionsOf(20));
  EXPECT_EQ(
      Types(result.graph),
      "pnnx.Input oort.Quantize oort.Dequantize pnnx.Attribute oort.Dequantize pnnx.Attribute "
      "F.conv2d nn.ReLU oort.Quantize oort.Dequantize pnnx.Attribute oort.Dequantize "
      "pnnx.Attribute F.conv2d pnnx.Expression nn.ReLU oort.Quantize oort.Dequantize "
      "nn.MaxPool2d oort.Quantize oort.Dequantize torch.flatten oort.Quantize "
      "oort.Dequantize pnnx.Attribute oort.Dequantize pnnx.Attribute F.linear pnnx.Output");
  EXPECT_EQ(EdgeProblems(result.graph), "");
  EXPECT_TRUE(result.graph.Check().empty());
  for (size_t i = 0; i < result.graph.operators.size(); ++i) {
    for (const int input : result.graph.operators[i].inputs) {
      EXPECT_LT(result.graph.operands[size_t(input)].producer, int(i));
    }
  }
  EXPECT_GT(result.report.result.error.Sqnr(), 30);
  EXPECT_EQ(result.report.result.agreement.rows, 2u);
  EXPECT_LT(result.report.weights, 0.4 * double(result.report.float_weights));
  EXPECT_EQ(result.report.samples, 18u);
  EXPECT_EQ(result.report.judged, 2u);
  // Pooling and flattening share the scale of what they are given.
  const auto& tensors = result.recipe.tensors;
  EXPECT_EQ(tensors.at("e").grid, tensors.at("f").grid);
  EXPECT_EQ(tensors.at("e").grid, tensors.at("g").grid);
  EXPECT_EQ(tensors.at("b").grid.zero_point, 0);
}

TEST(QuantizeTest, ScalesAreSymmetricAndAlikeWhereAskedFor) {
  QuantizeOptions options = OptionsOf(20);
  options.recipe.symmetric = options.recipe.one_scale = true;
  const QuantizeResult result = Quantize(NetworkOf(Residual()), options);
  EXPECT_EQ(result.recipe.tensors.at("x").grid.zero_point, 128);
  EXPECT_EQ(result.recipe.tensors.at("b").grid.zero_point, 0) << "behind ReLU";
  int weights = 0;
  for (const Operator& op : result.graph.operators) {
    const auto scales = op.attributes.find("scales");
    if (scales == op.attributes.end()) continue;
    ++weights;
    for (const float scale : scales->second.span<float>()) {
      EXPECT_EQ(scale, scales->second.data<float>()[0]);
    }
  }
  EXPECT_EQ(weights, 3);
  EXPECT_GT(result.report.result.error.Sqnr(), 25);
  QuantizeOptions again;
  again.recipe = ParseRecipe(RecipeText(result.recipe));
  EXPECT_EQ(PnnxParamText(Quantize(NetworkOf(Residual()), again).graph),
            PnnxParamText(result.graph));
}

TEST(QuantizeTest, BatchNormsAreFoldedFirst) {
  std::string lines = Residual();
  const std::string norm =
      "nn.BatchNorm2d norm 1 1 a a2 affine=True eps=1.0e-05 num_features=4 @bias=(4)f32 "
      "@running_mean=(4)f32 @running_var=(4)f32 @weight=(4)f32\n";
  lines.insert(lines.find("nn.ReLU act1"), norm);
  lines.replace(lines.find("act1 1 1 a b"), 12, "act1 1 1 a2 b");
  Graph graph = NetworkOf(lines);
  for (Operator& op : graph.operators) {
    if (op.name == "norm") {
      op.attributes["running_var"] = Tensor::From<float>({0.5f, 1, 2, 0.1f}, Shape{4});
    }
  }
  const QuantizeResult result = Quantize(graph, OptionsOf(20));
  EXPECT_EQ(Types(result.graph).find("BatchNorm"), std::string::npos);
  EXPECT_GT(result.report.result.error.Sqnr(), 25);
}

TEST(QuantizeTest, ARecipeAppliedAgainGivesTheSame) {
  const Graph graph = NetworkOf(Residual());
  const QuantizeResult first = Quantize(graph, OptionsOf(20));
  QuantizeOptions again;
  again.recipe = ParseRecipe(RecipeText(first.recipe));
  const QuantizeResult second = Quantize(graph, again);
  EXPECT_EQ(PnnxParamText(second.graph), PnnxParamText(first.graph));
  for (size_t i = 0; i < first.graph.operators.size(); ++i) {
    for (const auto& [name, tensor] : first.graph.operators[i].attributes) {
      const Tensor& other = second.graph.operators[i].attributes.at(name);
      EXPECT_EQ(std::memcmp(tensor.raw(), other.raw(), tensor.bytes()), 0);
    }
  }
  EXPECT_EQ(RecipeText(second.recipe), RecipeText(first.recipe));
  EXPECT_EQ(second.report.judged, 0u);
}

TEST(QuantizeTest, CorrectionsLowerTheError) {
  const Graph graph = NetworkOf(Residual());
  QuantizeOptions options = OptionsOf(20);
  options.recipe.method = Method::kMinMax;
  options.recipe.weights = WeightMethod::kMinMax;
  const double corrected = Quantize(graph, options).report.result.error.Sqnr();
  options.recipe.bias_correction = false;
  EXPECT_GE(corrected, Quantize(graph, options).report.result.error.Sqnr());
}

TEST(QuantizeTest, LayersAreRanked) {
  QuantizeOptions options = OptionsOf(20);
  options.analyse = true;
  const QuantizeResult result = Quantize(NetworkOf(Residual()), options);
  ASSERT_EQ(result.report.layers.size(), 3u);
  double noise = 0;
  for (const LayerReport& layer : result.report.layers) {
    EXPECT_TRUE(layer.quantized);
    EXPECT_GT(layer.weight_sqnr, 35);
    EXPECT_GT(layer.alone.Sqnr(), result.report.result.error.Sqnr() - 3);
    EXPECT_GT(layer.accumulated.Sqnr(), 25);
    noise += std::pow(10, -layer.alone.Sqnr() / 10);
  }
  // Small errors of single layers add up to about that of the network.
  const double sum = -10 * std::log10(noise);
  EXPECT_NEAR(sum, result.report.result.error.Sqnr(), 5);
}

TEST(QuantizeTest, TheBudgetSendsTheWorstBack) {
  const Graph graph = NetworkOf(Residual());
  QuantizeOptions options = OptionsOf(20);
  options.test = RandomSamples(30);
  options.recipe = Quantize(graph, options).recipe;
  options.recipe.tensors.at("b") = {{0, 0.001}, {0.000004f, 0}};  // ruins what second reads
  const QuantizeResult ruined = Quantize(graph, options);
  EXPECT_LT(ruined.report.result.agreement.share(), 0.9);
  options.budget = 0.05;
  const QuantizeResult kept = Quantize(graph, options);
  EXPECT_GE(kept.report.result.agreement.share(), 0.95);
  EXPECT_FALSE(kept.report.layers.at(1).quantized);
  EXPECT_TRUE(kept.report.layers.at(2).quantized);
  EXPECT_FALSE(kept.recipe.layers.at("second").quantized);
}

TEST(QuantizeTest, AConstantChannelIsNoHarm) {
  Graph graph = NetworkOf(Residual());
  for (Operator& op : graph.operators) {
    if (op.name != "first") continue;
    // Channel 2 gives its bias alone, as pruning leaves it.
    for (int64_t i = 36; i < 54; ++i) op.attributes["weight"].data<float>()[i] = 0;
    op.attributes["bias"].data<float>()[2] = 0.7f;
  }
  QuantizeOptions options = OptionsOf(20);
  options.recipe.equalize = options.recipe.adaround = true;
  const QuantizeResult result = Quantize(graph, options);
  EXPECT_GT(result.report.result.error.Sqnr(), 25);
  EXPECT_EQ(result.report.layers.size(), 3u);
}

TEST(QuantizeTest, SpeedIsMeasuredByTurns) {
  QuantizeOptions options = OptionsOf(10);
  options.measure = true;
  const QuantizeReport report = Quantize(NetworkOf(Residual()), options).report;
  EXPECT_TRUE(report.speed.measured());
  EXPECT_EQ(report.speed.layers.size(), 3u);
  bool warned = false;
  for (const std::string& warning : report.warnings) {
    warned = warned || warning.find("slower here than in") != std::string::npos;
  }
  EXPECT_EQ(warned, report.speed.Ratio() < 1);
  Speed speed;
  speed.layers = {{"a", 1, 0.5}, {"b", 1, 1.05}, {"c", 1, 1.5}, {"d", 1, 3}, {"e", 0, 1}};
  EXPECT_EQ(speed.Slower(), (std::vector<std::string>{"d", "c"}));
  EXPECT_FALSE(speed.measured());
}

TEST(QuantizeTest, Refusals) {
  const Graph graph = NetworkOf(Residual());
  EXPECT_NE(ErrorOf(graph, {}).find("there are no samples to calibrate with"), std::string::npos);
  QuantizeOptions options = OptionsOf(3);
  options.samples.read = [](size_t index) {
    Tensor image = Tensor::Zeros(DType::kF32, Shape{1, 2, 8, 8});
    if (index == 1) image.data<float>()[7] = std::nanf("");
    return std::vector<Tensor>{image};
  };
  EXPECT_EQ(ErrorOf(graph, options), "sample 1: it holds NaN or infinity");
  Graph broken = graph;
  for (Operator& op : broken.operators) {
    if (op.name != "second") continue;
    op.attributes["weight"] = op.attributes["weight"].Clone();
    op.attributes["weight"].data<float>()[3] = INFINITY;
  }
  const std::string said = ErrorOf(broken, OptionsOf(3));
  EXPECT_NE(said.find("second"), std::string::npos) << said;
  const Graph none = NetworkOf(Input("(1,2,8,8)") + "nn.ReLU act 1 1 x a\n" + Output("a"));
  EXPECT_NE(ErrorOf(none, OptionsOf(3)).find("no nn.Conv2d and no nn.Linear"), std::string::npos);
  options = OptionsOf(3);
  std::stop_source stop;
  stop.request_stop();
  options.watcher.stop = stop.get_token();
  EXPECT_EQ(ErrorOf(graph, options), "quantizing was cancelled");
}

}  // namespace
}  // namespace oort::quantize
