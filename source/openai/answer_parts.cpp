// SPDX-License-Identifier: MIT
#include "openai/answer_parts.h"

#include <algorithm>
#include <span>
#include <utility>

#include "core/problems.h"
#include "oort/error.h"
#include "openai/told_tools.h"
#include "text/json.h"

namespace oort::openai {
namespace {

using Json = json::OrderedJson;

/// Whether a prompt ends with a tag, which is a token, or a few.
bool EndsWithTag(const LanguageModel& model, const std::vector<int32_t>& prompt,
                 std::string_view tag) {
  constexpr size_t kTail = 12;
  const size_t tail = std::min(prompt.size(), kTail);
  const std::string text =
      model.tokenizer().Decode(std::span(prompt).last(tail), {.skip_special = false});
  const size_t end = text.find_last_not_of(" \n\r\t");
  return std::string_view(text).substr(0, end + 1).ends_with(tag);
}

[[noreturn]] void Refuse(const std::string& sentence) {
  throw Error(ErrorCode::kInvalidArgument, sentence);
}

/// A member that is a text, and not an empty one.
bool HasText(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() &&
         !found->get_ref<const std::string&>().empty();
}

/// {"function": {"name": …}}
bool HasNamedFunction(const Json& entry) {
  return entry.is_object() && entry.contains("function") && entry["function"].is_object() &&
         HasText(entry["function"], "name");
}

bool IsListOfFunctions(const Json& list) {
  return list.is_array() && std::ranges::all_of(list, HasNamedFunction);
}

bool IsPart(const Json& part) {
  return part.is_object() && HasText(part, "type") &&
         (part["type"] != "text" || (part.contains("text") && part["text"].is_string()));
}

/// Clients write null where there are none.
bool HasCalls(const Json& message) {
  const auto calls = message.find("tool_calls");
  return calls != message.end() && !calls->is_null();
}

/// As TellOfTools takes them: content that is text, parts, or null.
bool IsWellFormed(const Json& message) {
  if (!message.is_object() || !HasText(message, "role")) return false;
  const Json content = message.value("content", Json());
  const bool parts = content.is_array() && std::ranges::all_of(content, IsPart);
  if (!content.is_null() && !content.is_string() && !parts) return false;
  return !HasCalls(message) || IsListOfFunctions(message["tool_calls"]);
}

bool IsAboutCalls(const Json& message) {
  return message.is_object() && (HasCalls(message) || message.value("role", Json()) == "tool");
}

}  // namespace

std::string_view ChatTemplateOf(const LanguageModel& model, bool tools) {
  const std::string_view special = tools ? model.ChatTemplateSource("tool_use") : "";
  return special.empty() ? model.ChatTemplateSource() : special;
}

ToolStyle CallStyleOf(const LanguageModel& model) {
  return TemplateKnowsTools(model) ? ToolStyleOf(ChatTemplateOf(model, true)) : ToolStyle::kHermes;
}

void FindReasoning(const LanguageModel& model, const std::vector<int32_t>& prompt,
                   AnswerParserOptions& parts) {
  const std::string_view source = ChatTemplateOf(model, parts.tools != ToolStyle::kNone);
  if (source.find("<think>") == std::string_view::npos) return;
  parts.reasoning = true;
  parts.begins_in_reasoning = EndsWithTag(model, prompt, "<think>");
}

void FindChannels(const LanguageModel& model, bool splits, std::vector<int32_t>& prompt,
                  GenerateRequest& request, AnswerParserOptions& parts) {
  const bool may_call = parts.tools == ToolStyle::kHarmony;
  if (!may_call && !IsHarmony(ChatTemplateOf(model, false))) return;
  const Tokenizer& tokenizer = model.tokenizer();
  request.special_text = true;
  parts.harmony = parts.reasoning = splits || may_call;
  // Files do not always say that an answer ends with a call.
  for (const char* end : {"<|return|>", "<|call|>"}) {
    const auto token = tokenizer.IdOf(end);
    if (token && !request.ignore_end) request.stop_tokens.push_back(*token);
  }
  // What is held to a form is the answer itself.
  if (request.constraint != nullptr && EndsWithTag(model, prompt, "<|start|>assistant")) {
    const auto begin = tokenizer.Encode("<|channel|>final<|message|>", {.add_special = false});
    prompt.insert(prompt.end(), begin.begin(), begin.end());
  }
}

void CheckToolUse(const ToolUse& use) {
  if (use.tools.empty()) {
    if (use.choice.empty() || use.choice == "auto" || use.choice == "none") return;
    Refuse("tool_choice asks for a tool, and there are none");
  }
  const Json tools = json::ParseOrdered(use.tools, "tools");
  if (!IsListOfFunctions(tools)) {
    Refuse(R"(tools is a list of {"type": "function", "function": {"name": …}})");
  }
  if (use.choice.empty() || use.choice == "auto" || use.choice == "none" ||
      use.choice == "required") {
    return;
  }
  const bool there = std::ranges::any_of(
      tools, [&](const Json& tool) { return tool["function"]["name"] == use.choice; });
  if (!there) Refuse("tool_choice names " + Quote(use.choice) + ", which is none of the tools");
}

std::optional<GrammarSpec> MustCallGrammar(const LanguageModel& model, const ToolUse& use) {
  if (!use.must_call()) return {};
  const bool any = use.choice == "required";
  return ToolCallGrammar(CallStyleOf(model), use.tools, any ? "" : use.choice, use.parallel && any);
}

AnswerParserOptions TakeApart(const LanguageModel& model, const ToolUse& use,
                              GenerateRequest& request) {
  AnswerParserOptions parts;
  const bool own_form = request.constraint != nullptr && !use.must_call();
  if (use.may_call() && !own_form) parts.tools = CallStyleOf(model);
  FindReasoning(model, request.prompt, parts);
  // One that is held to a form begins with that, whatever the prompt has begun.
  if (request.constraint != nullptr) parts.begins_in_reasoning = false;
  FindChannels(model, true, request.prompt, request, parts);
  return parts;
}

void ParseArguments(Json& function) {
  const auto arguments = function.find("arguments");
  if (arguments == function.end() || !arguments->is_string()) return;
  try {
    Json parsed = json::ParseOrdered(arguments->get_ref<const std::string&>(), "the arguments");
    if (parsed.is_object()) *arguments = std::move(parsed);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kOutOfMemory) throw;
  }
}

void PutTools(const LanguageModel& model, const ToolUse& use, ChatInputs& inputs) {
  inputs.tools = use.may_call() ? use.tools : "";
  const bool knows = TemplateKnowsTools(model);
  Json messages = json::ParseOrdered(inputs.messages, "the messages");
  if (!messages.is_array() || messages.empty()) return;  // the template's to judge
  const bool calls = std::ranges::any_of(messages, IsAboutCalls);
  if (!calls && (knows || inputs.tools.empty())) return;
  for (size_t i = 0; i < messages.size(); ++i) {
    Json& message = messages[i];
    if (!IsWellFormed(message)) {
      Refuse("message " + std::to_string(i) +
             " is not as a chat with tools has it: a role, content that is text or parts, and "
             R"(tool_calls as [{"function": {"name": …, "arguments": …}}])");
    }
    if (!HasCalls(message)) {
      message.erase("tool_calls");
      continue;
    }
    for (Json& call : message["tool_calls"]) ParseArguments(call["function"]);
  }
  inputs.messages = messages.dump();
  if (!knows) TellOfTools(model, {}, inputs);
}

}  // namespace oort::openai
