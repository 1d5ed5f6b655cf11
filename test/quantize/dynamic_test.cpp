// SPDX-License-Identifier: MIT
// Linear layers whose inputs become bytes row by row while the network runs.
#include <gtest/gtest.h>

#include <cmath>

#include "quantize/networks.h"
#include "quantize/quantize.h"

namespace oort::quantize {
namespace {

/// What docs/quantization.md says that oort.DynamicQuantize gives.
std::vector<float> PlainRow(std::vector<float> row, bool symmetric) {
  float low = 0, high = 0;
  for (const float value : row) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  float scale = symmetric ? std::max(-low, high) / 127 : high / 255 - low / 255;
  if (scale < 0x1p-100f) scale = 1;
  const float zero = symmetric ? 0 : std::nearbyint(-low / scale);
  const float least = symmetric ? -127 : 0, most = symmetric ? 127 : 255;
  for (float& value : row) {
    const float steps = std::isnan(value) ? 0 : std::nearbyint(value * (1 / scale));
    value = (std::min(std::max(steps + zero, least), most) - zero) * scale;
  }
  return row;
}

TEST(DynamicTest, EachRowHasAScaleOfItsOwn) {
  const Tensor x = testing::RandomTensor(DType::kF32, Shape{5, 3, 37}, 3, -1, 2);
  Tensor rows = x.Clone();
  for (int64_t i = 0; i < rows.elements(); ++i) {
    const int64_t row = i / 37;
    float& value = rows.data<float>()[i];
    if (row == 1) value = 0;                       // a row of zeros
    if (row == 2) value *= 1e-35f;                 // one that is nearly so
    if (row == 3) value = std::abs(value) * 1000;  // none below 0
    if (row == 4) value = -std::abs(value);        // none above 0
    if (row == 5 && i % 37 == 4) value = NAN;      // what is no number counts as 0
    if (row == 6) value *= 1e30f;
  }
  for (const bool symmetric : {false, true}) {
    Tensor want = rows.Clone();
    for (int64_t row = 0; row < 15; ++row) {
      float* at = want.data<float>() + row * 37;
      const std::vector<float> plain = PlainRow({at, at + 37}, symmetric);
      std::copy(plain.begin(), plain.end(), at);
    }
    testing::OperatorCase("oort.DynamicQuantize")
        .Param("symmetric", symmetric ? "True" : "False")
        .Input(rows)
        .ExpectOutputs({want});
  }
}

std::string LinearOf(int in, int out, bool symmetric, bool gelu) {
  const std::string shape = "(" + std::to_string(out) + "," + std::to_string(in) + ")";
  const std::string rows = std::to_string(out);
  return "pnnx.Input pnnx_input_0 0 1 x\n"
         "oort.DynamicQuantize q 1 1 x xq symmetric=" +
         std::string(symmetric ? "True" : "False") + "\npnnx.Attribute w 0 1 w @data=" + shape +
         "i8 #w=" + shape + "i8\noort.Dequantize d 1 1 w wd axis=0 @scales=(" + rows +
         ")f32\npnnx.Attribute b 0 1 b @data=(" + rows + ")f32 #b=(" + rows +
         ")f32\nF.linear l 3 1 xq wd b y $input=xq $weight=wd $bias=b\n" +
         (gelu ? "F.gelu g 1 1 y z\n" : "") + "pnnx.Output pnnx_output_0 1 0 " +
         (gelu ? "z" : "y") + "\n";
}

Graph Filled(const std::string& lines) {
  Graph graph = GraphFromText(lines);
  uint64_t seed = 7;
  for (Operator& op : graph.operators) {
    for (auto& [name, tensor] : op.attributes) {
      const bool bytes = tensor.dtype() == DType::kI8, scales = name == "scales";
      tensor = testing::RandomTensor(tensor.dtype(), tensor.shape(), ++seed,
                                     bytes    ? -127
                                     : scales ? 0.001
                                              : -1,
                                     bytes    ? 127
                                     : scales ? 0.002
                                              : 1);
    }
  }
  return graph;
}

TEST(DynamicTest, BytesGiveWhatNumbersGive) {
  struct Case {
    int rows, in, out;
    bool symmetric, gelu;
  };
  for (const Case& c : {Case{1, 1, 1, false, false}, Case{5, 19, 7, false, true},
                        Case{33, 64, 48, true, false}, Case{130, 100, 70, false, false}}) {
    const std::string lines = LinearOf(c.in, c.out, c.symmetric, c.gelu);
    Tensor x = testing::RandomTensor(DType::kF32, Shape{1, c.rows, c.in}, 5, -1, 3);
    for (int64_t i = 0; i < c.in && c.rows > 2; ++i) x.data<float>()[2 * c.in + i] = 0;
    for (Isa isa : SupportedIsas()) {
      SCOPED_TRACE(std::string(Name(isa)) + " " + std::to_string(c.in));
      LoadOptions numbers, bytes;
      numbers.isa = bytes.isa = isa;
      numbers.disabled_passes = {"dynamic-linear"};
      const auto fused = RuntimeGraph::Build(Filled(lines), bytes);
      const std::string types = Types(fused->graph());
      EXPECT_NE(types.find("oort.DynamicLinear"), std::string::npos) << types;
      EXPECT_EQ(types.find("oort.DynamicQuantize"), std::string::npos) << types;
      EXPECT_EQ(types.find("gelu"), std::string::npos) << types;
      const Tensor want = Session(RuntimeGraph::Build(Filled(lines), numbers)).Forward({x})[0];
      testing::ExpectNear(Session(fused).Forward({x})[0], want, {2e-5, 2e-5});
    }
  }
}

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
