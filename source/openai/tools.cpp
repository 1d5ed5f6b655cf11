// SPDX-License-Identifier: MIT
#include "openai/tools.h"

#include <algorithm>

#include "core/problems.h"
#include "openai/answer_parts.h"

namespace oort::openai {
namespace {

constexpr size_t kLongestName = 64;  // OpenAI's

/// One of "tools": {"type": "function", "function": {"name", "description", "parameters"}}. The
/// template is not told which are `strict`.
Json ReadTool(const Json& given, const std::string& path, std::vector<std::string>& strict) {
  Fields tool(given, path);
  const std::string type(tool.Text("type").value_or(""));
  if (type != "function") {
    tool.Fail("type", "is " + Quote(type) + ": tools here are of type \"function\"");
  }
  const Json* function = tool.Object("function");
  if (function == nullptr) tool.Fail("function", "is missing");
  tool.CheckAllKnown();
  Fields inner(*function, tool.PathOf("function"));
  const std::string name(inner.Text("name").value_or(""));
  if (name.empty() || name.size() > kLongestName) {
    inner.Fail("name", "must have 1 to " + std::to_string(kLongestName) + " bytes");
  }
  Json kept = {{"name", name}};
  kept["description"] = inner.Text("description").value_or("");
  const Json* parameters = inner.Object("parameters");
  kept["parameters"] = parameters != nullptr
                           ? *parameters
                           : Json{{"type", "object"}, {"properties", Json::object()}};
  if (inner.Bool("strict").value_or(false)) strict.push_back(name);
  inner.CheckAllKnown();
  return {{"type", "function"}, {"function", std::move(kept)}};
}

bool HasTool(const Json& tools, std::string_view name) {
  return std::ranges::any_of(tools,
                             [&](const Json& tool) { return tool["function"]["name"] == name; });
}

/// {"type": "function", "function": {"name": …}}
std::string ReadNamed(Fields& choice) {
  if (choice.Text("type").value_or("") != "function") {
    choice.Fail("type", "must be \"function\"");
  }
  const Json* function = choice.Object("function");
  if (function == nullptr) choice.Fail("function", "is missing");
  choice.CheckAllKnown();
  Fields inner(*function, choice.PathOf("function"));
  const auto name = inner.Text("name");
  if (!name) inner.Fail("name", "is missing");
  inner.CheckAllKnown();
  return std::string(*name);
}

/// False where no tool may be called.
bool ReadChoice(Fields& fields, const Json& tools, ToolFields& out) {
  const Json* choice = fields.Find("tool_choice");
  if (choice == nullptr) return true;
  if (choice->is_string()) {
    const std::string word = choice->get<std::string>();
    if (word == "none") return false;
    if (word == "auto") return true;
    if (word != "required") {
      fields.Fail("tool_choice", "must be \"none\", \"auto\", \"required\" or a function");
    }
    out.choice = ToolFields::Choice::kRequired;
  } else {
    Fields inner(*choice, fields.PathOf("tool_choice"));
    out.choice = ToolFields::Choice::kNamed;
    out.name = ReadNamed(inner);
  }
  if (tools.empty()) fields.Fail("tool_choice", "asks for a tool, and there are none");
  if (out.choice == ToolFields::Choice::kNamed && !HasTool(tools, out.name)) {
    fields.Fail("tool_choice", "names " + Quote(out.name) + ", which is none of the tools");
  }
  return true;
}

/// The constraint of a grammar of calls, whose faults are those of the field "tools".
template <typename Make>
std::shared_ptr<const TokenConstraint> HoldTo(const ServedModel& served, ToolStyle style,
                                              const Make& make) {
  try {
    const std::vector<int32_t> prefix = ToolCallPrefix(style, served.model->tokenizer());
    return served.forms->For(*served.model).Compile(make(), prefix);
  } catch (const Error& error) {
    const ErrorCode code = error.code();
    const bool blames_request = code == ErrorCode::kInvalidArgument ||
                                code == ErrorCode::kUnsupported || code == ErrorCode::kLimit;
    if (!blames_request) throw;
    throw RequestError("tools", std::string("\"tools\": ") + error.what());
  }
}

}  // namespace

void CheckThinking(const Json& chat, const ServedModel& served, const std::string& param) {
  const auto variables = chat.find("chat_template_kwargs");
  if (variables == chat.end()) return;
  const std::string_view source = ChatTemplateOf(*served.model, false);
  if (source.find("enable_thinking") != std::string_view::npos) return;
  const bool thinks = source.find("<think>") != std::string_view::npos || IsHarmony(source);
  if (variables->at("enable_thinking") == thinks) return;
  throw RequestError(param, Quote(param) + (thinks ? " cannot be turned off: the model's template "
                                                     "has no switch for it"
                                                   : " cannot be turned on: the model's template "
                                                     "knows no thinking"));
}

bool KnowsEffort(const ServedModel& served) {
  return ChatTemplateOf(*served.model, false).find("reasoning_effort") != std::string_view::npos;
}

ToolFields ReadTools(Fields& fields, const Limits& limits) {
  ToolFields result;
  Json tools = Json::array();
  if (const Json* given = fields.List("tools", limits.tools)) {
    for (size_t i = 0; i < given->size(); ++i) {
      const std::string path = ItemPath(fields.PathOf("tools"), i);
      Json tool = ReadTool((*given)[i], path, result.strict);
      const std::string name = tool["function"]["name"];
      if (HasTool(tools, name)) {
        throw RequestError(path, Quote(path) + " has the name " + Quote(name) +
                                     ", which another tool has already");
      }
      tools.push_back(std::move(tool));
    }
  }
  result.parallel = fields.Bool("parallel_tool_calls").value_or(true);
  const bool may_call = ReadChoice(fields, tools, result);
  if (may_call && !tools.empty()) result.tools = tools.dump();
  fields.Refuse("functions", "its successor is \"tools\"");
  fields.Refuse("function_call", "its successor is \"tool_choice\"");
  return result;
}

void ApplyTools(const ToolFields& tools, const ServedModel& served, bool has_form,
                GenerateRequest& request, GenerateCall& call) {
  if (tools.tools.empty()) return;
  if (has_form) {
    throw RequestError("tools",
                       "\"tools\" and \"response_format\" exclude each other: an answer "
                       "of that form calls nothing");
  }
  const ToolStyle style = CallStyleOf(*served.model);
  call.parts.tools = style;
  call.parallel_calls = tools.parallel;
  if (tools.choice == ToolFields::Choice::kAuto) return;
  if (request.constraint != nullptr) {
    throw RequestError("tool_choice",
                       "\"tool_choice\" and a grammar for the answer exclude each other");
  }
  request.constraint = HoldTo(served, style, [&] {
    return ToolCallGrammar(style, tools.tools, tools.name, tools.parallel && tools.name.empty());
  });
}

void HoldStrictCalls(const ToolFields& tools, const ServedModel& served, GenerateRequest& request,
                     const GenerateCall& call) {
  const bool may_call =
      !tools.tools.empty() && tools.choice == ToolFields::Choice::kAuto && !tools.strict.empty();
  // Calls in a way that is not known here are text, and nobody is told of a call.
  if (!may_call || call.parts.tools == ToolStyle::kNone) return;
  if (request.constraint != nullptr) {
    throw RequestError("tools", "strict \"tools\" and a grammar for the answer exclude each other");
  }
  request.constraint = HoldTo(served, call.parts.tools, [&] {
    return StrictToolGrammar(call.parts, tools.tools, tools.strict, tools.parallel);
  });
}

}  // namespace oort::openai
