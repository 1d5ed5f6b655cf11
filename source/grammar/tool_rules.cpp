// SPDX-License-Identifier: MIT
// Grammars of tool calls: what a model writes where it must call something.
#include <string>
#include <utility>
#include <vector>

#include "core/guard.h"
#include "core/problems.h"
#include "grammar/json_schema.h"
#include "grammar/json_text.h"
#include "grammar/sources.h"
#include "oort/error.h"
#include "oort/tool_calls.h"

namespace oort {
namespace grammar {
namespace {

/// What stands around calls, and between two.
struct ToolFrame {
  std::string open, close, between, arguments;
};

ToolFrame FrameOf(const std::string& style) {
  if (style == "hermes") return {"<tool_call>\n", "\n</tool_call>", "\n", "arguments"};
  if (style == "mistral") return {"[", "]", ", ", "arguments"};
  return {"", "", "; ", "parameters"};
}

ExprId CallOf(Rules& rules, JsonText& json, const ToolFrame& frame, const OrderedJson& tool) {
  const std::string name = tool["name"].get<std::string>();
  const RuleId arguments = AddJsonSchema(rules, json, tool["parameters"]);
  const std::string begin =
      "{\"name\": " + OrderedJson(name).dump() + ", \"" + frame.arguments + "\": ";
  return rules.Sequence({rules.Text(begin), rules.Call(arguments), rules.Text("}")});
}

/// A text of this kind that ToolCallGrammar did not make is refused like any other.
void CheckSpec(const OrderedJson& spec) {
  bool right = spec.is_object() && spec.contains("style") && spec["style"].is_string() &&
               spec.contains("parallel") && spec["parallel"].is_boolean() &&
               spec.contains("tools") && spec["tools"].is_array() && !spec["tools"].empty();
  for (size_t i = 0; right && i < spec["tools"].size(); ++i) {
    const OrderedJson& tool = spec["tools"][i];
    right = tool.is_object() && tool.contains("name") && tool["name"].is_string() &&
            tool.contains("parameters");
  }
  if (!right) {
    throw Error(ErrorCode::kInvalidArgument, "ToolCallGrammar did not make this list of tools");
  }
}

Error BadTool(size_t index, const std::string& what) {
  return Error(ErrorCode::kInvalidArgument, "tool " + std::to_string(index) + " " + what);
}

/// The name and parameters of a tool, of which nothing is trusted.
OrderedJson FunctionOf(const OrderedJson& tool, size_t index) {
  if (!tool.is_object() || !tool.contains("function") || !tool["function"].is_object()) {
    throw BadTool(index, "is no {\"type\": \"function\", \"function\": {…}}");
  }
  const OrderedJson& function = tool["function"];
  if (!function.contains("name") || !function["name"].is_string() ||
      function["name"].get<std::string>().empty()) {
    throw BadTool(index, "has no name");
  }
  const bool has_parameters = function.contains("parameters") && !function["parameters"].is_null();
  OrderedJson parameters =
      has_parameters ? function["parameters"]
                     : OrderedJson{{"type", "object"}, {"properties", OrderedJson::object()}};
  if (!parameters.is_object()) throw BadTool(index, "has parameters that are no schema");
  return {{"name", function["name"]}, {"parameters", std::move(parameters)}};
}

}  // namespace

Rules ReadToolCalls(std::string_view spec) {
  CheckTextSize(spec, "the list of tools");
  const OrderedJson whole = ParseOrdered(spec, "the list of tools");
  CheckSpec(whole);
  const ToolFrame frame = FrameOf(whole["style"].get<std::string>());
  Rules rules;
  JsonText json(rules);
  std::vector<ExprId> ways;
  for (const OrderedJson& tool : whole["tools"]) ways.push_back(CallOf(rules, json, frame, tool));
  const RuleId call = rules.AddRule("call");
  rules.Define(call, rules.Choice(std::move(ways)));
  const bool each = whole["style"] == "hermes";  // has the frame around every call
  const ExprId one =
      each ? rules.Sequence({rules.Text(frame.open), rules.Call(call), rules.Text(frame.close)})
           : rules.Call(call);
  const uint32_t most = whole["parallel"].get<bool>() ? kUnbounded : 1;
  const ExprId calls = rules.Joined({}, {}, rules.Text(frame.between), one, 1, most);
  rules.root = rules.AddRule("root");
  rules.Define(
      rules.root,
      each ? calls : rules.Sequence({rules.Text(frame.open), calls, rules.Text(frame.close)}));
  return rules;
}

}  // namespace grammar

GrammarSpec ToolCallGrammar(ToolStyle style, std::string_view tools, std::string_view name,
                            bool parallel) {
  return Guarded([&] {
    if (style == ToolStyle::kNone) {
      throw Error(ErrorCode::kUnsupported,
                  "the model's chat template writes tool calls in no way that is known here, so an "
                  "answer cannot be held to one");
    }
    grammar::CheckTextSize(tools, "the list of tools");
    const grammar::OrderedJson list = grammar::ParseOrdered(tools, "the list of tools");
    if (!list.is_array() || list.empty()) {
      throw Error(ErrorCode::kInvalidArgument, "the list of tools is empty, or no list");
    }
    grammar::OrderedJson kept = grammar::OrderedJson::array();
    for (size_t i = 0; i < list.size(); ++i) {
      grammar::OrderedJson function = grammar::FunctionOf(list[i], i);
      if (name.empty() || function["name"] == name) kept.push_back(std::move(function));
    }
    if (kept.empty()) {
      throw Error(ErrorCode::kInvalidArgument, "there is no tool with the name " + Quote(name));
    }
    GrammarSpec spec;
    spec.kind = GrammarSpec::Kind::kToolCalls;
    spec.text =
        grammar::OrderedJson{{"style", Name(style)}, {"parallel", parallel}, {"tools", kept}}
            .dump();
    return spec;
  });
}

std::vector<int32_t> ToolCallPrefix(ToolStyle style, const Tokenizer& tokenizer) {
  if (style != ToolStyle::kMistral) return {};
  const auto token = tokenizer.IdOf("[TOOL_CALLS]");
  return token && tokenizer.IsSpecial(*token) ? std::vector<int32_t>{*token}
                                              : std::vector<int32_t>();
}

}  // namespace oort
