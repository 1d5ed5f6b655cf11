// SPDX-License-Identifier: MIT
#include "quantize/recipe.h"

#include <gtest/gtest.h>

#include "quantize/networks.h"
#include "text/recipe_json.h"

namespace oort::quantize {
namespace {

Recipe Full() {
  Recipe recipe;
  recipe.method = Method::kKl;
  recipe.percentile = 99.5;
  recipe.weights = WeightMethod::kMinMax;
  recipe.bias_correction = false;
  recipe.one_scale = recipe.symmetric = true;
  recipe.rules.push_back({"first*", "", true, "it hurts", {}});
  recipe.rules.push_back({"", "nn.Linear", {}, "", Method::kMinMax});
  recipe.tensors["x"] = {{-1.25, 0.1}, {0.0123456789f, 17}};
  recipe.layers["head"] = {true, "", {0.1f, -1e-7f, 3}};
  recipe.layers["second"] = {false, "because", {}};
  return recipe;
}

std::string Refusal(const std::string& text) {
  try {
    ParseRecipe(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(RecipeTest, WhatIsWrittenIsRead) {
  const std::string text = RecipeText(Full());
  const Recipe read = ParseRecipe(text);
  EXPECT_EQ(RecipeText(read), text);
  EXPECT_TRUE(read.one_scale && read.symmetric);
  EXPECT_EQ(read.tensors.at("x").grid, Full().tensors.at("x").grid);
  EXPECT_EQ(read.layers.at("head").correction, Full().layers.at("head").correction);
  EXPECT_EQ(RecipeText(ParseRecipe(RecipeText(Recipe()))), RecipeText(Recipe()));
}

TEST(RecipeTest, RulesComeBeforeResults) {
  Recipe recipe = Full();
  Operator op;
  op.name = "first.conv";
  op.type = "nn.Conv2d";
  ASSERT_TRUE(recipe.Decide(op).has_value());
  EXPECT_TRUE(recipe.Decide(op)->keep_float);
  EXPECT_EQ(recipe.Decide(op)->reason, "it hurts");
  op.name = "head";
  op.type = "nn.Linear";
  EXPECT_FALSE(recipe.Decide(op)->keep_float);
  EXPECT_EQ(recipe.MethodFor(op), Method::kMinMax);
  recipe.rules.insert(recipe.rules.begin(), {"h?ad", "", true, "", {}});
  EXPECT_TRUE(recipe.Decide(op)->keep_float);
  op.name = "other";
  EXPECT_FALSE(recipe.Decide(op).has_value());
}

TEST(RecipeTest, RefusalsNameTheKey) {
  const std::string head = R"({"version": 1, )";
  const std::pair<std::string, std::string> cases[] = {
      {R"({})", "expected 'version' of the recipe to be 1"},
      {R"({"version": 2})", "'version'"},
      {R"([1])", "object"},
      {R"({"version": 1)", "recipe"},
      {head + R"("methods": "kl"})", "unknown key 'methods' in the recipe"},
      {head + R"("method": "best"})", "minmax, moving-average, percentile, kl, mse"},
      {head + R"("percentile": 30})", "'percentile'"},
      {head + R"("weights": 4})", "'weights' of the recipe to be a text"},
      {head + R"("rules": [{"match": "a"}]})", "rule 1 says nothing"},
      {head + R"("rules": [{"float": true}]})", "rule 1 needs 'match' or 'type'"},
      {head + R"("rules": [{"match": "a", "flaot": true}]})", "unknown key 'flaot' in rule 1"},
      {head + R"("tensors": {"x": {"scale": 0, "zero_point": 0}}})", "the scale of tensor 'x'"},
      {head + R"("tensors": {"x": {"scale": 1}}})", "'scale' and 'zero_point' together"},
      {head + R"("tensors": {"x": {"scale": 1, "zero_point": 256}}})", "0 to 255"},
      {head + R"("tensors": {"x": {"low": 2, "high": 1}}})", "'low' <= 'high'"},
      {head + R"("tensors": {"x": {"low": 0, "high": 1e300}}})", "tensor 'x'"},
      {head + R"("layers": {"a": {"bias_correction": ["b"]}}})", "a list of numbers"},
      {head + R"("layers": {"a": {"quantized": 1}}})", "true or false"},
  };
  for (const auto& [text, says] : cases) {
    EXPECT_NE(Refusal(text).find(says), std::string::npos) << text << ": " << Refusal(text);
  }
  EXPECT_EQ(
      ParseRecipe(head + R"("tensors": {"x": {"low": -1, "high": 1.55}}})").tensors.at("x").grid,
      (Grid{0.01f, 100}));
}

TEST(RecipeTest, WhatTheNetworkLacksIsNamedAllAtOnce) {
  const Graph graph = NetworkOf(Residual());
  const Points points =
      FindPoints(graph, [](const Operator&) { return std::optional<Decision>(); });
  Recipe recipe;
  CheckRecipe(recipe, graph, points);
  recipe.rules.push_back({"third*", "", true, "", {}});
  recipe.layers["tail"] = {};
  recipe.tensors["zz"] = {};
  try {
    CheckRecipe(recipe, graph, points);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(
        error.what(),
        "recipe: rule 1 ('third*') matches no convolution or linear layer; the network has "
        "no convolution or linear layer 'tail'; the network has no operand 'zz'");
  }
}

TEST(GlobTest, StarsAndQuestionMarks) {
  EXPECT_TRUE(GlobMatches("*", ""));
  EXPECT_TRUE(GlobMatches("layer?.*.conv", "layer1.0.conv"));
  EXPECT_TRUE(GlobMatches("a*b*c", "aXbYbZc"));
  EXPECT_FALSE(GlobMatches("a*b*c", "aXbYbZ"));
  EXPECT_FALSE(GlobMatches("a?", "a"));
  EXPECT_FALSE(GlobMatches("", "a"));
}

}  // namespace
}  // namespace oort::quantize
