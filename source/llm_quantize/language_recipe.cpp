// SPDX-License-Identifier: MIT
#include "llm_quantize/language_recipe.h"

#include "text/recipe_json.h"
#include "weights/weight_blocks.h"
#include "weights/weight_grid.h"

namespace oort::llm_quantize {
namespace {

using json::OrderedJson;
using json::RecipeMembers;

constexpr int64_t kMostNumber = int64_t{1} << 40;

/// {"type": "int4", "group": 64} or {"keep": true}.
MatrixType ParseType(RecipeMembers& members) {
  MatrixType type;
  const std::string name = members.Text("type");
  const bool keep = members.Bool("keep").value_or(false);
  if (keep != name.empty()) members.Wrong("type", "the name of a type, or 'keep' to be true");
  type.group = members.Whole("group", 1, 1 << 24).value_or(0);
  if (keep) return type;
  type.format = WeightFormatNamed(name);
  if (!type.format || *type.format <= WeightFormat::kBf16 || !CanWriteFormat(*type.format)) {
    members.Wrong("type", "a type that can be written, such as q4_k or int4");
  }
  if (type.group != 0 && BlockFormatOf(*type.format) != nullptr) {
    members.Wrong("group", "left out: " + name + " has its own");
  }
  return type;
}

OrderedJson TypeJson(const MatrixType& type) {
  if (!type.format) return {{"keep", true}};
  OrderedJson json = {{"type", Name(*type.format)}};
  if (type.group != 0) json["group"] = type.group;
  return json;
}

MatrixRule ParseMatrixRule(const OrderedJson& value, size_t number) {
  RecipeMembers members(value, "rule " + std::to_string(number));
  MatrixRule rule;
  rule.match = members.Text("match");
  if (rule.match.empty()) members.Wrong("match", "a name, in which * stands for any characters");
  rule.type = ParseType(members);
  members.Finish();
  return rule;
}

}  // namespace

LanguageRecipe ParseLanguageRecipe(std::string_view text) {
  const OrderedJson root = json::ParseOrdered(text, "recipe");
  RecipeMembers members(root, "the recipe");
  LanguageRecipe recipe;
  if (members.Number("version") != 1.0) members.Wrong("version", "1");
  recipe.weights = members.Text("weights");
  recipe.method = members.Text("method");
  recipe.group = members.Whole("group", 1, 1 << 24);
  recipe.tokens = members.Whole("tokens", 1, kMostNumber);
  recipe.window = members.Whole("window", 2, kMostNumber);
  recipe.budget = members.Number("budget");
  recipe.damping = members.Number("damping");
  recipe.asymmetric = members.Bool("asymmetric");
  recipe.file_order = members.Bool("file_order");
  if (const OrderedJson* rules = members.Find("rules")) {
    if (!rules->is_array()) members.Wrong("rules", "a list");
    for (const OrderedJson& rule : *rules) {
      recipe.rules.push_back(ParseMatrixRule(rule, recipe.rules.size() + 1));
    }
  }
  json::ParseMap(members, "matrices", recipe.matrices,
                 [](const OrderedJson& value, const std::string& name) {
                   RecipeMembers type(value, "matrix '" + name + "'");
                   const MatrixType parsed = ParseType(type);
                   type.Finish();
                   return parsed;
                 });
  members.Finish();
  return recipe;
}

std::string LanguageRecipeText(const LanguageRecipe& recipe) {
  OrderedJson root = {{"version", 1}};
  const auto set = [&](const char* key, const auto& value) {
    if (value) root[key] = *value;
  };
  if (!recipe.weights.empty()) root["weights"] = recipe.weights;
  if (!recipe.method.empty()) root["method"] = recipe.method;
  set("group", recipe.group);
  set("asymmetric", recipe.asymmetric);
  set("budget", recipe.budget);
  set("tokens", recipe.tokens);
  set("window", recipe.window);
  set("damping", recipe.damping);
  set("file_order", recipe.file_order);
  root["rules"] = OrderedJson::array();
  for (const MatrixRule& rule : recipe.rules) {
    OrderedJson one = {{"match", rule.match}};
    one.update(TypeJson(rule.type));
    root["rules"].push_back(std::move(one));
  }
  root["matrices"] = OrderedJson::object();
  for (const auto& [name, type] : recipe.matrices) root["matrices"][name] = TypeJson(type);
  return root.dump(1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace oort::llm_quantize
