// SPDX-License-Identifier: MIT
// Grammars of tool calls: what a model writes where it must call something, or may.
#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/guard.h"
#include "core/problems.h"
#include "grammar/json_schema.h"
#include "grammar/json_text.h"
#include "grammar/sources.h"
#include "oort/error.h"
#include "oort/tool_calls.h"
#include "text/unicode.h"

namespace oort {
namespace grammar {
namespace {

/// What an answer may be: calls alone; text, too; and either behind reasoning that the prompt has
/// begun, or that the answer may begin.
constexpr std::string_view kCalls = "calls", kText = "text", kReasons = "reasons",
                           kReasonsOrNot = "reasons or not";

/// What stands around calls, and between two.
struct ToolFrame {
  std::string open, close, between, arguments;
};

ToolFrame FrameOf(const std::string& style) {
  if (style == "hermes") return {"<tool_call>\n", "\n</tool_call>", "\n", "arguments"};
  if (style == "mistral") return {"[", "]", ", ", "arguments"};
  return {"", "", "; ", "parameters"};
}

/// A tool without parameters here may have any.
ExprId CallOf(Rules& rules, JsonText& json, const ToolFrame& frame, const OrderedJson& tool) {
  const std::string name = tool["name"].get<std::string>();
  const OrderedJson& parameters = tool["parameters"];
  const ExprId arguments =
      parameters.is_null() ? json.Object() : rules.Call(AddJsonSchema(rules, json, parameters));
  const std::string begin =
      "{\"name\": " + OrderedJson(name).dump() + ", \"" + frame.arguments + "\": ";
  return rules.Sequence({rules.Text(begin), arguments, rules.Text("}")});
}

/// What the answers of a request may be.
class ToolAnswers {
 public:
  ToolAnswers(Rules& rules, const OrderedJson& spec)
      : rules_(rules),
        style_(spec["style"].get<std::string>()),
        frame_(FrameOf(style_)),
        most_(spec["parallel"].get<bool>() ? kUnbounded : 1) {
    JsonText json(rules);
    std::vector<ExprId> ways;
    for (const OrderedJson& tool : spec["tools"]) ways.push_back(CallOf(rules, json, frame_, tool));
    call_ = rules.AddRule("call");
    rules.Define(call_, rules.Choice(std::move(ways)));
  }

  /// One call or more, and nothing else.
  ExprId Calls() {
    if (style_ == "hermes") {
      return rules_.Joined({}, {}, rules_.Text(frame_.between), Framed(), 1, most_);
    }
    const ExprId calls =
        rules_.Joined({}, {}, rules_.Text(frame_.between), rules_.Call(call_), 1, most_);
    return rules_.Sequence({rules_.Text(frame_.open), calls, rules_.Text(frame_.close)});
  }

  /// Text, in which AnswerParser finds no call but these.
  ExprId TextOrCalls() {
    if (style_ == "hermes") {
      const ExprId text = TextWithout("<tool_call>");
      return rules_.Sequence({text, rules_.Repeat(rules_.Sequence({Framed(), text}), 0, most_)});
    }
    const ExprId calls = Calls();
    if (style_ != "mistral") {
      return rules_.Choice({TextNotFrom('{'), rules_.Sequence({Any(space_), calls})});
    }
    const ExprId named = rules_.Optional(rules_.Text("[TOOL_CALLS]"));
    return rules_.Choice({TextNotFrom('['), rules_.Sequence({Any(space_), named, calls}),
                          rules_.Sequence({rules_.Text({kMarkByte}), calls})});
  }

  /// The same behind reasoning that the prompt has begun. The answer may end in the middle of it.
  ExprId BehindReasoning(ExprId answer) {
    const ExprId reasoning = TextWithout("</think>");
    return rules_.Sequence(
        {reasoning, rules_.Optional(rules_.Sequence({rules_.Text("</think>"), answer}))});
  }
  /// The same behind reasoning, or without.
  ExprId PerhapsBehindReasoning(ExprId answer) {
    return rules_.Choice(
        {answer, rules_.Sequence({Any(space_), rules_.Text("<think>"), BehindReasoning(answer)})});
  }

 private:
  ExprId Framed() {
    return rules_.Sequence(
        {rules_.Text(frame_.open), rules_.Call(call_), rules_.Text(frame_.close)});
  }
  ExprId Any(const text::Ranges& characters) {
    return rules_.Repeat(rules_.Set(characters), 0, kUnbounded);
  }

  /// Any text in which a tag does not stand; the tag has its first character only once.
  ExprId TextWithout(std::string_view tag) {
    const auto but = [&](char c) {
      const auto first = static_cast<uint32_t>(tag[0]);
      const auto other = static_cast<uint32_t>(c);
      return text::Complement(text::Normalized({{first, first + 1}, {other, other + 1}}));
    };
    const ExprId rest = Any(but(tag[0]));
    // What may stand behind the first i characters of the tag, until it begins once more.
    ExprId behind = rules_.Nothing();
    for (size_t i = tag.size() - 1; i > 0; --i) {
      std::vector<ExprId> ways = {rules_.Empty(), rules_.Sequence({rules_.Set(but(tag[i])), rest})};
      if (i + 1 < tag.size()) ways.push_back(rules_.Sequence({rules_.Text({tag[i]}), behind}));
      behind = rules_.Choice(std::move(ways));
    }
    const ExprId begun = rules_.Sequence({rules_.Text({tag[0]}), behind});
    return rules_.Sequence({rest, rules_.Repeat(begun, 0, kUnbounded)});
  }

  /// Any text whose first character behind space is another one.
  ExprId TextNotFrom(char first) {
    const auto c = static_cast<uint32_t>(first);
    const text::Ranges others = text::Complement(text::Union(space_, {{c, c + 1}}));
    const ExprId seen = rules_.Sequence({rules_.Set(others), Any(text::Complement({}))});
    return rules_.Sequence({Any(space_), rules_.Optional(seen)});
  }

  const text::Ranges space_ = {{'\t', '\n' + 1}, {'\r', '\r' + 1}, {' ', ' ' + 1}};
  Rules& rules_;
  const std::string style_;
  const ToolFrame frame_;
  const uint32_t most_;
  RuleId call_;
};

/// A text of this kind that ToolCallGrammar did not make is refused like any other.
void CheckSpec(const OrderedJson& spec) {
  bool right = spec.is_object() && spec.contains("style") && spec["style"].is_string() &&
               spec.contains("parallel") && spec["parallel"].is_boolean() &&
               spec.contains("tools") && spec["tools"].is_array() && !spec["tools"].empty() &&
               spec.contains("answer") && spec["answer"].is_string();
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
  Rules rules;
  ToolAnswers answers(rules, whole);
  const std::string answer = whole["answer"].get<std::string>();
  ExprId body = answer == kCalls ? answers.Calls() : answers.TextOrCalls();
  if (answer == kReasonsOrNot) body = answers.PerhapsBehindReasoning(body);
  if (answer == kReasons) body = answers.BehindReasoning(body);
  rules.root = rules.AddRule("root");
  rules.Define(rules.root, body);
  return rules;
}

}  // namespace grammar

namespace {

GrammarSpec SpecOf(ToolStyle style, grammar::OrderedJson tools, bool parallel,
                   std::string_view answer) {
  GrammarSpec spec;
  spec.kind = GrammarSpec::Kind::kToolCalls;
  spec.text = grammar::OrderedJson{{"style", Name(style)},
                                   {"parallel", parallel},
                                   {"answer", answer},
                                   {"tools", std::move(tools)}}
                  .dump();
  return spec;
}

/// The functions that `keep` wants, which may change them.
template <typename Keep>
grammar::OrderedJson FunctionsOf(ToolStyle style, std::string_view tools, const Keep& keep) {
  if (style == ToolStyle::kHarmony) {
    throw Error(ErrorCode::kUnsupported,
                "the model calls tools in channels of their own (harmony), to which an answer "
                "cannot be held: leave the choice to it");
  }
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
    if (keep(function)) kept.push_back(std::move(function));
  }
  return kept;
}

}  // namespace

GrammarSpec ToolCallGrammar(ToolStyle style, std::string_view tools, std::string_view name,
                            bool parallel) {
  return Guarded([&] {
    grammar::OrderedJson kept = FunctionsOf(style, tools, [&](grammar::OrderedJson& function) {
      return name.empty() || function["name"] == name;
    });
    if (kept.empty()) {
      throw Error(ErrorCode::kInvalidArgument, "there is no tool with the name " + Quote(name));
    }
    return SpecOf(style, std::move(kept), parallel, grammar::kCalls);
  });
}

GrammarSpec StrictToolGrammar(const AnswerParserOptions& parts, std::string_view tools,
                              std::span<const std::string> strict, bool parallel) {
  return Guarded([&] {
    grammar::OrderedJson kept =
        FunctionsOf(parts.tools, tools, [&](grammar::OrderedJson& function) {
          const auto name = function["name"].get<std::string>();
          if (std::ranges::find(strict, name) == strict.end()) function["parameters"] = nullptr;
          return true;
        });
    const std::string_view answer = parts.begins_in_reasoning ? grammar::kReasons
                                    : parts.reasoning         ? grammar::kReasonsOrNot
                                                              : grammar::kText;
    GrammarSpec spec = SpecOf(parts.tools, std::move(kept), parallel, answer);
    spec.marked = true;
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
