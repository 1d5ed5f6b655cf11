// SPDX-License-Identifier: MIT
#include "quantize/recipe.h"

#include <algorithm>
#include <cmath>

#include "text/recipe_json.h"

namespace oort::quantize {
namespace {

using json::OrderedJson;

using json::RecipeMembers;

[[noreturn]] void Throw(const std::string& message) { json::ThrowRecipe(message); }

/// A rule for finding ranges.
std::optional<Method> OneMethod(RecipeMembers& members, const char* key) {
  const std::string name = members.Text(key);
  if (name.empty()) return {};
  const std::optional<Method> method = MethodOf(name);
  if (!method) members.Wrong(key, "one of " + MethodNames());
  return method;
}

/// Whether a text is the second of two; the first is what a recipe means that says nothing.
bool SecondOf(RecipeMembers& members, const char* key, const std::string& first,
              const std::string& second) {
  const std::string text = members.Text(key);
  if (!text.empty() && text != first && text != second) members.Wrong(key, first + " or " + second);
  return text == second;
}

Rule ParseRule(const OrderedJson& value, size_t number) {
  RecipeMembers members(value, "rule " + std::to_string(number));
  Rule rule;
  rule.match = members.Text("match");
  rule.type = members.Text("type");
  rule.keep_float = members.Bool("float");
  rule.reason = members.Text("reason");
  rule.method = OneMethod(members, "method");
  members.Finish();
  if (rule.match.empty() && rule.type.empty()) {
    Throw("rule " + std::to_string(number) + " needs 'match' or 'type'");
  }
  if (!rule.keep_float && !rule.method) {
    Throw("rule " + std::to_string(number) + " says nothing: give it 'float' or 'method'");
  }
  return rule;
}

TensorResult ParseTensor(const OrderedJson& value, const std::string& name) {
  RecipeMembers members(value, "tensor '" + name + "'");
  TensorResult result;
  const auto low = members.Number("low"), high = members.Number("high");
  const auto scale = members.Number("scale"), zero = members.Number("zero_point");
  members.Finish();
  if (scale.has_value() != zero.has_value()) {
    Throw("tensor '" + name + "' needs 'scale' and 'zero_point' together");
  }
  if ((!scale && (!low || !high)) || (low && high && *low > *high)) {
    Throw("tensor '" + name + "' needs 'scale' and 'zero_point', or 'low' <= 'high'");
  }
  result.range = {low.value_or(0), high.value_or(0)};
  if (!scale) {
    try {
      result.grid = GridOf(result.range);
    } catch (const Error& error) {
      throw error.WithContext("recipe: tensor '" + name + "': ");
    }
    return result;
  }
  const auto narrow = static_cast<float>(*scale);
  if (!(narrow >= 0x1p-100f && narrow <= 0x1p+100f)) {
    Throw("the scale of tensor '" + name + "' is " + std::to_string(*scale) +
          "; it must be above 0 and no larger than 2^100");
  }
  if (*zero != std::floor(*zero) || *zero < 0 || *zero > 255) {
    members.Wrong("zero_point", "a whole number from 0 to 255");
  }
  result.grid = {narrow, static_cast<int>(*zero)};
  if (!low || !high) {
    result.range = {static_cast<double>(result.grid.Dequantize(0)),
                    static_cast<double>(result.grid.Dequantize(255))};
  }
  return result;
}

/// A list of numbers that f32 holds.
std::vector<float> ParseNumbers(const OrderedJson& list, const RecipeMembers& members,
                                const char* key) {
  if (!list.is_array()) members.Wrong(key, "a list of numbers");
  std::vector<float> numbers;
  for (const OrderedJson& each : list) {
    const double number = each.is_number() ? each.get<double>() : std::nan("");
    const auto narrow = static_cast<float>(number);
    if (!std::isfinite(narrow)) members.Wrong(key, "a list of numbers");
    numbers.push_back(narrow);
  }
  return numbers;
}

LayerResult ParseLayer(const OrderedJson& value, const std::string& name) {
  RecipeMembers members(value, "layer '" + name + "'");
  LayerResult result;
  result.quantized = members.Bool("quantized").value_or(true);
  result.reason = members.Text("reason");
  if (const OrderedJson* list = members.Find("bias_correction")) {
    result.correction = ParseNumbers(*list, members, "bias_correction");
  }
  result.rounding = members.Text("rounding");
  members.Finish();
  return result;
}

}  // namespace

bool Rule::Matches(const Operator& op) const {
  return (match.empty() || GlobMatches(match, op.name)) && (type.empty() || type == op.type);
}

std::optional<Decision> Recipe::Decide(const Operator& op) const {
  for (const Rule& rule : rules) {
    if (!rule.keep_float || !rule.Matches(op)) continue;
    return Decision{*rule.keep_float, rule.reason.empty() ? "the recipe says so" : rule.reason};
  }
  const auto found = layers.find(op.name);
  if (found == layers.end()) return {};
  const LayerResult& result = found->second;
  return Decision{!result.quantized, result.reason.empty() ? "the recipe says so" : result.reason};
}

std::optional<Method> Recipe::MethodFor(const Operator& op) const {
  for (const Rule& rule : rules) {
    if (rule.method && rule.Matches(op)) return rule.method;
  }
  return {};
}

Recipe ParseRecipe(std::string_view text) {
  const OrderedJson root = json::ParseOrdered(text, "recipe");
  RecipeMembers members(root, "the recipe");
  Recipe recipe;
  const auto version = members.Number("version");
  if (version != 1.0) members.Wrong("version", "1");
  if (members.Text("method") != "auto") recipe.method = OneMethod(members, "method");
  recipe.percentile = members.Number("percentile").value_or(recipe.percentile);
  if (!(recipe.percentile > 50 && recipe.percentile <= 100)) {
    members.Wrong("percentile", "above 50 and no more than 100");
  }
  const std::string weights = members.Text("weights");
  if (!weights.empty() && weights != "mse" && weights != "minmax") {
    members.Wrong("weights", "mse or minmax");
  }
  if (weights == "minmax") recipe.weights = WeightMethod::kMinMax;
  recipe.one_scale = SecondOf(members, "weight_scales", "channel", "tensor");
  recipe.symmetric = SecondOf(members, "activations", "asymmetric", "symmetric");
  recipe.bias_correction = members.Bool("bias_correction").value_or(true);
  recipe.dynamic = members.Bool("dynamic").value_or(false);
  recipe.equalize = members.Bool("equalize").value_or(false);
  recipe.adaround = members.Bool("adaround").value_or(false);
  json::ParseMap(members, "equalization", recipe.equalization,
                 [&](const OrderedJson& value, const std::string&) {
                   return ParseNumbers(value, members, "equalization");
                 });
  if (const OrderedJson* rules = members.Find("rules")) {
    if (!rules->is_array()) members.Wrong("rules", "a list");
    for (const OrderedJson& rule : *rules) {
      recipe.rules.push_back(ParseRule(rule, recipe.rules.size() + 1));
    }
  }
  json::ParseMap(members, "tensors", recipe.tensors, ParseTensor);
  json::ParseMap(members, "layers", recipe.layers, ParseLayer);
  members.Finish();
  return recipe;
}

std::string RecipeText(const Recipe& recipe) {
  OrderedJson root = {{"version", 1},
                      {"method", recipe.method ? Name(*recipe.method) : "auto"},
                      {"percentile", recipe.percentile},
                      {"weights", recipe.weights == WeightMethod::kMse ? "mse" : "minmax"},
                      {"bias_correction", recipe.bias_correction}};
  if (recipe.one_scale) root["weight_scales"] = "tensor";
  if (recipe.symmetric) root["activations"] = "symmetric";
  if (recipe.dynamic) root["dynamic"] = true;
  if (recipe.equalize) root["equalize"] = true;
  if (recipe.adaround) root["adaround"] = true;
  if (!recipe.equalization.empty()) root["equalization"] = recipe.equalization;
  root["rules"] = OrderedJson::array();
  for (const Rule& rule : recipe.rules) {
    OrderedJson one = OrderedJson::object();
    if (!rule.match.empty()) one["match"] = rule.match;
    if (!rule.type.empty()) one["type"] = rule.type;
    if (rule.keep_float) one["float"] = *rule.keep_float;
    if (!rule.reason.empty()) one["reason"] = rule.reason;
    if (rule.method) one["method"] = Name(*rule.method);
    root["rules"].push_back(std::move(one));
  }
  root["tensors"] = OrderedJson::object();
  for (const auto& [name, tensor] : recipe.tensors) {
    root["tensors"][name] = {{"low", tensor.range.low},
                             {"high", tensor.range.high},
                             {"scale", tensor.grid.scale},
                             {"zero_point", tensor.grid.zero_point}};
  }
  root["layers"] = OrderedJson::object();
  for (const auto& [name, layer] : recipe.layers) {
    OrderedJson one = {{"quantized", layer.quantized}};
    if (!layer.reason.empty()) one["reason"] = layer.reason;
    if (!layer.correction.empty()) one["bias_correction"] = layer.correction;
    if (!layer.rounding.empty()) one["rounding"] = layer.rounding;
    root["layers"][name] = std::move(one);
  }
  return root.dump(1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

void CheckRecipe(const Recipe& recipe, const Graph& graph, const Points& points) {
  std::string problems;
  const auto add = [&](const std::string& problem) {
    problems += (problems.empty() ? "" : "; ") + problem;
  };
  const auto any_layer = [&](const auto& test) {
    return std::any_of(points.layers.begin(), points.layers.end(), [&](const Layer& layer) {
      return test(graph.operators[static_cast<size_t>(layer.op)]);
    });
  };
  const std::string kinds = recipe.dynamic ? "convolution, linear or recurrent layer or attention"
                                           : "convolution or linear layer";
  for (size_t i = 0; i < recipe.rules.size(); ++i) {
    const Rule& rule = recipe.rules[i];
    if (any_layer([&](const Operator& op) { return rule.Matches(op); })) continue;
    add("rule " + std::to_string(i + 1) + " ('" + (rule.match.empty() ? rule.type : rule.match) +
        "') matches no " + kinds);
  }
  for (const auto& [name, result] : recipe.layers) {
    const std::string& wanted = name;
    if (!any_layer([&](const Operator& op) { return op.name == wanted; })) {
      add("the network has no " + kinds + " '" + name + "'");
    }
  }
  for (const auto& [name, result] : recipe.tensors) {
    if (graph.FindOperand(name) < 0) add("the network has no operand '" + name + "'");
  }
  if (!problems.empty()) Throw(problems);
}

}  // namespace oort::quantize
