// SPDX-License-Identifier: MIT
// Recipes of language models, budgets of bits and the mixtures of llama.cpp.
#include "llm_quantize/language_recipe.h"

#include <gtest/gtest.h>

#include "kit/errors.h"
#include "kit/files.h"
#include "kit/paths.h"
#include "llm_quantize/budget.h"
#include "llm_quantize/quantize_language.h"

namespace oort::llm_quantize {
namespace {

namespace fs = std::filesystem;
using oort::testing::ExpectThrows;

const fs::path kTinyLlama = TestData() / "checkpoints" / "llama.gguf";

LanguageRecipe FullRecipe() {
  LanguageRecipe recipe;
  recipe.weights = "q4_k_m";
  recipe.method = "gptq";
  recipe.group = 64;
  recipe.tokens = 4096;
  recipe.window = 256;
  recipe.budget = 4.75;
  recipe.damping = 0.02;
  recipe.asymmetric = true;
  recipe.file_order = false;
  recipe.rules.push_back({"*.down_proj.weight", {WeightFormat::kQ6K, 0}});
  recipe.rules.push_back({"lm_head.weight", {}});
  recipe.matrices["model.layers.0.mlp.up_proj.weight"] = {WeightFormat::kInt4, 128};
  recipe.matrices["model.embed_tokens.weight"] = {};
  return recipe;
}

TEST(LanguageRecipe, IsReadAsItWasWritten) {
  const LanguageRecipe recipe = FullRecipe();
  EXPECT_EQ(ParseLanguageRecipe(LanguageRecipeText(recipe)), recipe);
  EXPECT_EQ(ParseLanguageRecipe("{\"version\": 1}"), LanguageRecipe());
}

TEST(LanguageRecipe, SaysWhatIsWrong) {
  const auto refuses = [](const std::string& members, std::string_view says) {
    ExpectThrows([&] { ParseLanguageRecipe("{\"version\": 1, " + members + "}"); },
                 ErrorCode::kInvalidArgument, says);
  };
  refuses("\"percentile\": 99", "unknown key 'percentile'");
  refuses("\"rules\": [{\"match\": \"*\"}]", "'type' of rule 1");
  refuses("\"rules\": [{\"type\": \"q4_0\"}]", "'match' of rule 1");
  refuses("\"rules\": [{\"match\": \"*\", \"type\": \"q2_k\"}]", "that can be written");
  refuses("\"rules\": [{\"match\": \"*\", \"type\": \"q4_0\", \"keep\": true}]", "or 'keep'");
  refuses("\"rules\": [{\"match\": \"*\", \"type\": \"q4_0\", \"group\": 64}]", "has its own");
  refuses("\"matrices\": {\"a\": {\"type\": \"int4\", \"group\": 0}}", "whole number from 1");
  refuses("\"tokens\": 1.5", "a whole number");
  ExpectThrows([] { ParseLanguageRecipe("{}"); }, ErrorCode::kInvalidArgument, "'version'");
}

std::vector<int32_t> RecipeText(size_t count) {
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>(i * i * 7 + i) % 40);
  return tokens;
}

LanguageQuantizeOptions ImportanceOptions(const std::string& weights) {
  LanguageQuantizeOptions options;
  options.method = Method::kImportance;
  options.weights = weights;
  options.tokens = RecipeText(128);
  options.window = 32;
  options.threads = 1;
  return options;
}

std::map<std::string, WeightFormat> FormatsOf(const LanguageQuantizeResult& result) {
  std::map<std::string, WeightFormat> formats;
  for (const MatrixReport& matrix : result.matrices) formats[matrix.name] = matrix.format;
  return formats;
}

TEST(LanguageRecipe, RulesSayWhatMatricesBecome) {
  const testing::TemporaryFolder folder;
  LanguageQuantizeOptions options = ImportanceOptions("q4_0");
  options.rules.push_back({"model.layers.0.*.v_proj.weight", {WeightFormat::kQ8_0, 0}});
  options.rules.push_back({"model.layers.0.self_attn.*", {}});
  const auto formats = FormatsOf(QuantizeLanguage(kTinyLlama, folder / "a.gguf", options));
  EXPECT_EQ(formats.at("model.layers.0.self_attn.v_proj.weight"), WeightFormat::kQ8_0);
  EXPECT_EQ(formats.at("model.layers.0.self_attn.q_proj.weight"), WeightFormat::kF32);
  EXPECT_EQ(formats.at("model.layers.1.self_attn.q_proj.weight"), WeightFormat::kQ4_0);
  options.rules.push_back({"model.layers.9.*", {}});
  ExpectThrows([&] { QuantizeLanguage(kTinyLlama, folder / "b.gguf", options); },
               ErrorCode::kInvalidArgument, "rule 3 ('model.layers.9.*') matches no matrix");
  options.rules = {{"*", {WeightFormat::kInt4, 0}}};
  ExpectThrows([&] { QuantizeLanguage(kTinyLlama, folder / "b.gguf", options); },
               ErrorCode::kInvalidArgument, "a GGUF has no int4");
  options.rules.clear();
  options.picked["model.layers.7.mlp.up_proj.weight"] = {WeightFormat::kQ4_1, 0};
  ExpectThrows([&] { QuantizeLanguage(kTinyLlama, folder / "b.gguf", options); },
               ErrorCode::kInvalidArgument, "for another model");
}

/// What was picked once gives the same file without picking again.
TEST(LanguageRecipe, WhatWasPickedGivesTheSameTypes) {
  const testing::TemporaryFolder folder;
  LanguageQuantizeOptions options = ImportanceOptions("int4");
  options.budget = 9.5;
  const auto first = QuantizeLanguage(kTinyLlama, folder / "a.gguf", options);
  options.budget.reset();
  for (const MatrixReport& matrix : first.matrices) {
    if (!matrix.kept) options.picked[matrix.name] = {matrix.format, matrix.group};
  }
  const auto second = QuantizeLanguage(kTinyLlama, folder / "b.gguf", options);
  EXPECT_EQ(FormatsOf(first), FormatsOf(second));
}

TEST(Budget, TakesWhatSavesMostForItsBytes) {
  const std::vector<std::vector<Offer>> matrices = {
      {{10, 1.0}, {12, 0.9}, {20, 0.1}},  // the second step alone is poor, the third is good
      {{10, 0.5}, {15, 0.2}},
      {{10, 0.1}, {20, 0.09}}};
  EXPECT_EQ(PickOffers(matrices, 30), (std::vector<size_t>{0, 0, 0}));
  EXPECT_EQ(PickOffers(matrices, 36), (std::vector<size_t>{0, 1, 0}));
  EXPECT_EQ(PickOffers(matrices, 40), (std::vector<size_t>{2, 0, 0}));
  EXPECT_EQ(PickOffers(matrices, 45), (std::vector<size_t>{2, 1, 0}));
  EXPECT_EQ(PickOffers(matrices, 1000), (std::vector<size_t>{2, 1, 1}));
  ExpectThrows([&] { PickOffers(matrices, 29); }, ErrorCode::kInvalidArgument, "too small");
}

/// Rows of 24 of the tiny model make no whole groups and stay f32, which counts, too.
TEST(Budget, IsKeptAndUsed) {
  const testing::TemporaryFolder folder;
  for (const double bits : {8.5, 9.5, 10.5}) {
    for (const char* file : {"a.pnnx.param", "a.gguf"}) {
      LanguageQuantizeOptions options = ImportanceOptions("int4");
      options.budget = bits;
      const auto result = QuantizeLanguage(kTinyLlama, folder / file, options);
      EXPECT_LE(result.LayerBitsPerWeight(), bits);
      EXPECT_GT(result.LayerBitsPerWeight(), bits - 0.75);
    }
  }
  LanguageQuantizeOptions options = ImportanceOptions("int4");
  options.budget = 8;
  ExpectThrows([&] { QuantizeLanguage(kTinyLlama, folder / "b.gguf", options); },
               ErrorCode::kInvalidArgument, "the budget is too small");
}

/// Values and the ends of feed-forwards of the first and last layers get more bits.
TEST(Mixture, IsThatOfLlamaCpp) {
  const testing::TemporaryFolder folder;
  const auto formats =
      FormatsOf(QuantizeLanguage(kTinyLlama, folder / "a.gguf", ImportanceOptions("q4_k_m")));
  // Rows of 32 are no whole blocks of K types: Q4_K is Q5_0 there, and Q6_K is Q8_0.
  EXPECT_EQ(formats.at("model.layers.0.self_attn.q_proj.weight"), WeightFormat::kQ5_0);
  EXPECT_EQ(formats.at("model.layers.0.self_attn.v_proj.weight"), WeightFormat::kQ5_0);
  EXPECT_EQ(formats.at("model.layers.1.self_attn.v_proj.weight"), WeightFormat::kQ8_0);
  EXPECT_EQ(formats.at("model.layers.1.mlp.up_proj.weight"), WeightFormat::kQ5_0);
  EXPECT_EQ(formats.at("lm_head.weight"), WeightFormat::kQ8_0);
  EXPECT_EQ(formats.at("model.embed_tokens.weight"), WeightFormat::kQ5_0);
}

}  // namespace
}  // namespace oort::llm_quantize
