// SPDX-License-Identifier: MIT
// Factors of channels beside plain numpy (make_goldens.py), and that they change no float answer.
#include "quantize/equalize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "kit/paths.h"
#include "oort/npy.h"
#include "quantize/networks.h"
#include "quantize/quantize.h"

namespace oort::quantize {
namespace {

const std::string kEqualGoldens = TestData().string() + "/quantize/goldens/";

TEST(EqualizeTest, FactorsAreThoseOfNumpy) {
  std::ifstream file(kEqualGoldens + "goldens.json");
  const nlohmann::json goldens = nlohmann::json::parse(file).at("equalize");
  const Tensor weight = ReadNpy(kEqualGoldens + "equalized.npy");
  const auto maxima = goldens.at("maxima").get<std::vector<double>>();
  for (const bool depthwise : {false, true}) {
    const auto want = goldens.at(depthwise ? "depthwise" : "factors").get<std::vector<float>>();
    const EqualReader reader{&weight, depthwise};
    const std::vector<float> got = EqualFactors(maxima, {&reader, 1});
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_FLOAT_EQ(got[i], want[i]) << i;
  }
}

/// A 3x3 convolution of each channel alone.
std::string Depthwise(const std::string& name, int channels, const std::string& from,
                      const std::string& to) {
  std::string line = Conv(name, 1, channels, from, to);
  line.replace(line.find("groups=1"), 8, "groups=" + std::to_string(channels));
  line.replace(line.find("in_channels=1"), 13, "in_channels=" + std::to_string(channels));
  return line;
}

std::string Chain() {
  return Input("(1,2,8,8)") + Conv("first", 2, 6, "x", "a") + "nn.ReLU act1 1 1 a b\n" +
         Depthwise("second", 6, "b", "c") + "nn.ReLU act2 1 1 c d\n" +
         "nn.MaxPool2d pool 1 1 d e ceil_mode=False dilation=(1,1) kernel_size=(2,2) "
         "padding=(0,0) return_indices=False stride=(2,2)\n" +
         Conv("third", 6, 4, "e", "f") + "nn.ReLU6 act3 1 1 f g\n" + Conv("last", 4, 4, "g", "h") +
         Output("h");
}

/// Channels of very different size, as folded batch norms leave them.
Graph Lopsided() {
  Graph graph = NetworkOf(Chain());
  for (Operator& op : graph.operators) {
    if (op.name != "first" && op.name != "second") continue;
    Tensor& weight = op.attributes.at("weight");
    const int64_t each = weight.elements() / weight.dim(0);
    for (int64_t i = 0; i < weight.elements(); ++i) {
      weight.data<float>()[i] *= std::ldexp(1.0f, -static_cast<int>(i / each) * 2 + 4);
    }
  }
  return graph;
}

Samples ChainSamples(size_t count) {
  Samples samples;
  samples.count = count;
  samples.read = [](size_t index) {
    return std::vector<Tensor>{
        testing::RandomTensor(DType::kF32, Shape{1, 2, 8, 8}, 100 + index, -1, 1)};
  };
  samples.name = [](size_t index) { return "sample " + std::to_string(index); };
  return samples;
}

/// The names of all groups: makers, then readers.
std::vector<std::string> Groups(const Graph& graph) {
  std::vector<std::string> texts;
  for (const EqualGroup& group : FindEqualGroups(graph)) {
    std::string text;
    for (const int op : group.makers) text += graph.operators[size_t(op)].name + " ";
    text += "to";
    for (const int op : group.readers) text += " " + graph.operators[size_t(op)].name;
    texts.push_back(text);
  }
  return texts;
}

TEST(EqualizeTest, GroupsEndWhereFactorsWouldNotPass) {
  // ReLU6 has a limit that factors would move.
  EXPECT_EQ(Groups(NetworkOf(Chain())),
            (std::vector<std::string>{"first to second", "second to third"}));
  EXPECT_TRUE(FindEqualGroups(NetworkOf(Residual())).empty()) << "rows are read, too";
}

/// Two bottlenecks without an activation at their ends, as in MobileNet-v2.
std::string Stream() {
  return Input("(1,2,8,8)") + Conv("stem", 2, 4, "x", "a") + Conv("wide", 4, 6, "a", "b") +
         "nn.ReLU6 act1 1 1 b c\n" + Conv("narrow", 6, 4, "c", "d") +
         "pnnx.Expression sum 2 1 a d e expr=add(@0,@1) #a=(1,4,8,8)f32 #d=(1,4,8,8)f32\n" +
         Conv("last", 4, 5, "e", "f") + Output("f");
}

TEST(EqualizeTest, ResidualStreamsHaveFactorsTogether) {
  EXPECT_EQ(Groups(NetworkOf(Stream())), std::vector<std::string>{"stem narrow to wide last"});
  const Equalization factors{{"stem", {0.5f, 8, 3, 0.1f}}};
  const Tensor x = testing::RandomTensor(DType::kF32, Shape{1, 2, 8, 8}, 3, -1, 1);
  const Tensor want = Session(RuntimeGraph::Build(NetworkOf(Stream()))).Forward({x})[0];
  const Graph equal = Equalized(NetworkOf(Stream()), factors);
  testing::ExpectNear(Session(RuntimeGraph::Build(equal)).Forward({x})[0], want, {1e-4, 1e-4});
}

/// Of two layers that read the same channels, the one with larger weights does not count for more.
TEST(EqualizeTest, ReadersCountAlike) {
  const std::vector<double> maxima{1, 1};
  const Tensor small = Tensor::From<float>({0.01f, 0.0025f}, Shape{1, 2});
  const Tensor large = Tensor::From<float>({25.0f, 100.0f}, Shape{1, 2});
  const std::vector<EqualReader> readers{{&small, false}, {&large, false}};
  for (const float factor : EqualFactors(maxima, readers)) EXPECT_FLOAT_EQ(factor, 1);
  EXPECT_FLOAT_EQ(EqualFactors(maxima, std::span(readers).first(1))[1], std::sqrt(2.0f));
}

TEST(EqualizeTest, FloatAnswersStay) {
  const Equalization factors{{"first", {0.5f, 2, 3, 0.1f, 7, 1}},
                             {"second", {5, 1, 0.3f, 2, 2, 9}}};
  const Tensor x = testing::RandomTensor(DType::kF32, Shape{1, 2, 8, 8}, 3, -1, 1);
  const Tensor want = Session(RuntimeGraph::Build(Lopsided())).Forward({x})[0];
  const Graph equal = Equalized(Lopsided(), factors);
  testing::ExpectNear(Session(RuntimeGraph::Build(equal)).Forward({x})[0], want, {1e-4, 1e-4});
  EXPECT_NE(equal.operators[1].attributes.at("weight").data<float>()[0],
            Lopsided().operators[1].attributes.at("weight").data<float>()[0]);
}

TEST(EqualizeTest, BytesGain) {
  QuantizeOptions options;
  options.samples = ChainSamples(30);
  options.threads = 1;
  const double plain = Quantize(Lopsided(), options).report.result.error.Sqnr();
  options.recipe.equalize = true;
  const QuantizeResult result = Quantize(Lopsided(), options);
  EXPECT_GT(result.report.result.error.Sqnr(), plain);
  EXPECT_EQ(result.recipe.equalization.size(), 2u);
  // The recipe has the factors: no sample is needed to do it again.
  QuantizeOptions again;
  again.recipe = ParseRecipe(RecipeText(result.recipe));
  EXPECT_EQ(PnnxParamText(Quantize(Lopsided(), again).graph), PnnxParamText(result.graph));
}

TEST(EqualizeTest, WrongFactorsAreErrors) {
  const auto error = [](const Equalization& factors) -> std::string {
    try {
      Equalized(Lopsided(), factors);
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_NE(error({{"third", {1, 1, 1, 1}}}).find("fits no layer"), std::string::npos);
  EXPECT_NE(error({{"nobody", {1}}}).find("'nobody'"), std::string::npos);
  EXPECT_NE(error({{"first", {1, 1}}}).find("2 factors for 6 channels"), std::string::npos);
  EXPECT_NE(error({{"first", {1, 1, 0, 1, 1, 1}}}).find("not above 0"), std::string::npos);
  QuantizeOptions options;
  options.recipe.equalize = true;
  EXPECT_THROW(Quantize(Lopsided(), options), Error) << "there are no samples";
  options.recipe.dynamic = true;
  EXPECT_THROW(Quantize(Lopsided(), options), Error);
}

}  // namespace
}  // namespace oort::quantize
