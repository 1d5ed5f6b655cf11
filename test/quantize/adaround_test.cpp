// SPDX-License-Identifier: MIT
// Rounding by what layers give, beside plain numpy (make_goldens.py).
#include "quantize/adaround.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "kit/paths.h"
#include "oort/npy.h"
#include "quantize/networks.h"
#include "quantize/quantize.h"

namespace oort::quantize {
namespace {

const std::string kRoundedGoldens = TestData().string() + "/quantize/goldens/";

TEST(AdaroundTest, MovesTheWeightsThatNumpyMoves) {
  std::ifstream file(kRoundedGoldens + "goldens.json");
  const nlohmann::json goldens = nlohmann::json::parse(file).at("adaround");
  const Tensor weight = ReadNpy(kRoundedGoldens + "rounded_weights.npy");
  Operator op;
  op.type = "nn.Linear";
  op.attributes["weight"] = weight;
  SeenInputs inputs(op, 1);
  inputs.Add(ReadNpy(kRoundedGoldens + "rounded_inputs.npy"));
  ASSERT_EQ(inputs.windows(), 40);
  QuantizedWeights rounded = QuantizeRows(weight.span<float>(), 5, WeightMethod::kMinMax);
  const auto nearest = goldens.at("nearest").get<std::vector<int>>();
  const auto want = goldens.at("values").get<std::vector<int>>();
  ASSERT_NE(nearest, want) << "the case shows nothing";
  EXPECT_EQ(std::vector<int>(rounded.values.begin(), rounded.values.end()), nearest);
  QuantizedWeights again = rounded;
  const std::vector<bool> moved = RoundToOutputs(weight, inputs, rounded);
  EXPECT_EQ(std::vector<int>(rounded.values.begin(), rounded.values.end()), want);
  // What a recipe holds does the same.
  const auto read = MovedOf(HexOf(moved), moved.size());
  ASSERT_TRUE(read);
  MoveToOther(weight, *read, again);
  EXPECT_EQ(again.values, rounded.values);
}

TEST(AdaroundTest, WindowsAreThoseOfTheConvolution) {
  Operator op;
  op.type = "nn.Conv2d";
  for (const auto& [key, text] : {std::pair{"stride", "(2,1)"},
                                  {"padding", "(1,0)"},
                                  {"dilation", "(1,2)"},
                                  {"groups", "2"}}) {
    op.params[key] = Parameter(text);
  }
  op.attributes["weight"] = testing::RandomTensor(DType::kF32, Shape{4, 3, 3, 2}, 3, -1, 1);
  const Tensor image = testing::RandomTensor(DType::kF32, Shape{2, 6, 5, 6}, 4, -1, 1);
  SeenInputs inputs(op, 1);
  inputs.Add(image);
  // 3 rows and 4 columns of outputs for each of two images, all of which are seen.
  ASSERT_EQ(inputs.windows(), 24);
  ASSERT_EQ(inputs.terms(), 18);
  testing::OperatorCase one("nn.Conv2d");
  for (const auto& [key, value] : op.params) one.Param(key, value.text());
  const Tensor want = one.Attribute("weight", op.attributes["weight"]).Input(image).Run().at(0);
  const float* weight = op.attributes["weight"].data<float>();
  for (int64_t w = 0; w < 24; ++w) {
    for (int64_t c = 0; c < 4; ++c) {
      double sum = 0;
      for (int64_t k = 0; k < 18; ++k) {
        sum +=
            double(inputs.values()[size_t((w * 2 + c / 2) * 18 + k)]) * double(weight[c * 18 + k]);
      }
      EXPECT_NEAR(sum, double(want.data<float>()[(w / 12 * 4 + c) * 12 + w % 12]), 1e-4);
    }
  }
}

QuantizeOptions RoundedOptions() {
  QuantizeOptions options;
  options.threads = 1;
  options.recipe.adaround = true;
  options.recipe.method = Method::kMinMax;
  options.samples.count = 20;
  options.samples.read = [](size_t index) {
    return std::vector<Tensor>{
        testing::RandomTensor(DType::kF32, Shape{1, 2, 8, 8}, 100 + index, -1, 1)};
  };
  options.samples.name = [](size_t index) { return std::to_string(index); };
  return options;
}

TEST(AdaroundTest, ARecipeHasTheRounding) {
  const Graph graph = NetworkOf(Residual());
  QuantizeOptions options = RoundedOptions();
  const QuantizeResult result = Quantize(graph, options);
  options.recipe.adaround = false;
  EXPECT_GE(result.report.result.error.Sqnr() + 1.5,
            Quantize(graph, options).report.result.error.Sqnr());
  QuantizeOptions again;
  again.recipe = ParseRecipe(RecipeText(result.recipe));
  const QuantizeResult second = Quantize(graph, again);
  EXPECT_EQ(RecipeText(second.recipe), RecipeText(result.recipe));
  for (size_t i = 0; i < result.graph.operators.size(); ++i) {
    for (const auto& [name, tensor] : result.graph.operators[i].attributes) {
      const Tensor& other = second.graph.operators[i].attributes.at(name);
      EXPECT_EQ(std::memcmp(tensor.raw(), other.raw(), tensor.bytes()), 0) << name;
    }
  }
  again.recipe.layers.at("head").rounding = "zz";
  EXPECT_THROW(Quantize(graph, again), Error);
  again.recipe.layers.at("head").rounding = "0";
  EXPECT_THROW(Quantize(graph, again), Error);
}

}  // namespace
}  // namespace oort::quantize
