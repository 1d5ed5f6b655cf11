// SPDX-License-Identifier: MIT
#include "openai/told_tools.h"

#include <string>
#include <utility>

#include "oort/error.h"
#include "text/json.h"

namespace oort::openai {
namespace {

using Json = json::OrderedJson;

/// Arguments of calls may be as deep as a request, and stand in it.
constexpr size_t kDeepest = 2 * json::kDeepest;

constexpr const char* kGap = "\n\n";

std::string Opening(const std::string& tag) { return "<" + tag + ">\n"; }
std::string Closing(const std::string& tag) { return "\n</" + tag + ">"; }

std::string InTags(const std::string& tag, const std::string& text) {
  return Opening(tag) + text + Closing(tag);
}

std::string TextOf(const Json& tools) {
  std::string list;
  for (const Json& tool : tools) list += (list.empty() ? "" : "\n") + tool["function"].dump();
  return "You can call these functions, of which each line describes one:\n" +
         InTags("tools", list) +
         "\nTo call one, answer with its name and its arguments as JSON, in tags of their own for "
         "each call:\n" +
         InTags("tool_call", R"({"name": "NAME", "arguments": {"ARGUMENT": "VALUE"}})") +
         "\nWhat a function returns comes back between <tool_response> and </tool_response>.";
}

// Content is a text, parts of one, or null.

bool IsEmpty(const Json& content) {
  return content.is_null() ||
         (content.is_string() && content.get_ref<const std::string&>().empty());
}

bool IsText(const Json& part) { return part.value("type", "") == "text"; }

/// Texts that meet become one part: some templates trim each.
void AddPart(Json& parts, Json part) {
  if (!parts.empty() && IsText(parts.back()) && IsText(part)) {
    parts.back()["text"].get_ref<std::string&>() += part["text"].get_ref<const std::string&>();
  } else {
    parts.push_back(std::move(part));
  }
}

void AddTextPart(Json& parts, const std::string& text) {
  AddPart(parts, {{"type", "text"}, {"text", text}});
}

void AddParts(Json& parts, Json more) {
  if (!more.is_array()) return AddTextPart(parts, more.get<std::string>());
  for (Json& part : more) AddPart(parts, std::move(part));
}

/// Adds behind what is there, in place: a conversation may have thousands of results. A picture
/// stays one, and is part of a list.
void Append(Json& content, Json more) {
  if (IsEmpty(more)) return;
  if (IsEmpty(content)) {
    content = std::move(more);
  } else if (content.is_string() && more.is_string()) {
    content.get_ref<std::string&>() += kGap + more.get_ref<const std::string&>();
  } else {
    if (!content.is_array()) {
      Json parts = Json::array();
      AddTextPart(parts, content.get<std::string>());
      content = std::move(parts);
    }
    AddTextPart(content, kGap);
    AddParts(content, std::move(more));
  }
}

void Prepend(Json& content, const std::string& text) {
  Json whole = text;
  Append(whole, std::move(content));
  content = std::move(whole);
}

/// A call that the model made before, as it would write it.
std::string TextOfCall(const Json& call) {
  const Json& function = call["function"];
  const Json arguments = function.value("arguments", Json::object());
  const Json written = {{"name", function["name"]}, {"arguments", arguments}};
  return InTags("tool_call", written.dump());
}

void WriteCallsAsText(Json& message) {
  std::string text;
  for (const Json& call : message["tool_calls"]) {
    text += (text.empty() ? "" : "\n") + TextOfCall(call);
  }
  Append(message["content"], text);
  message.erase("tool_calls");
}

Json ContentOfResult(Json content) {
  const std::string tag = "tool_response";
  if (content.is_string()) return InTags(tag, content.get_ref<const std::string&>());
  Json parts = Json::array();
  AddTextPart(parts, Opening(tag));
  if (!IsEmpty(content)) AddParts(parts, std::move(content));
  AddTextPart(parts, Closing(tag));
  return parts;
}

bool HasRole(const Json& message, const char* role) { return message["role"] == role; }

/// Results become what the user says, together with what the user says before and behind them:
/// templates may refuse two messages of the user in a row.
Json WithoutCalls(Json messages) {
  Json result = Json::array();
  bool after_result = false;
  for (Json& message : messages) {
    const bool is_result = HasRole(message, "tool");
    if (is_result) {
      Json content = ContentOfResult(std::move(message["content"]));
      message = {{"role", "user"}, {"content", std::move(content)}};
    } else if (message.contains("tool_calls")) {
      WriteCallsAsText(message);
    }
    const bool joins = (is_result || after_result) && HasRole(message, "user") && !result.empty() &&
                       HasRole(result.back(), "user");
    if (joins) {
      Append(result.back()["content"], std::move(message["content"]));
    } else {
      result.push_back(std::move(message));
    }
    after_result = is_result;
  }
  return result;
}

/// Whether the template writes down what a message of this role says.
bool TakesRole(const LanguageModel& model, const std::string& role, const ChatInputs& inputs,
               const ChatLimits& limits) {
  const std::string said = "what is told here";
  ChatInputs probe;
  probe.messages = Json::array({Json{{"role", role}, {"content", said}},
                                Json{{"role", "user"}, {"content", "?"}}})
                       .dump();
  probe.variables = inputs.variables;
  try {
    return model.FormatChat(probe, "default", limits).find(said) != std::string::npos;
  } catch (const Error& error) {  // what the template raises
    if (error.code() == ErrorCode::kOutOfMemory) throw;
    return false;
  }
}

void TellInMessages(const LanguageModel& model, const std::string& text, const ChatInputs& inputs,
                    const ChatLimits& limits, Json& messages) {
  const std::string first = messages.front()["role"];
  const bool instructs = first == "system" || first == "developer";
  if (instructs && TakesRole(model, first, inputs, limits)) {
    return Append(messages.front()["content"], text);
  }
  if (first != "system" && TakesRole(model, "system", inputs, limits)) {
    messages.insert(messages.begin(), Json{{"role", "system"}, {"content", text}});
    return;
  }
  for (Json& message : messages) {
    if (HasRole(message, "user")) return Prepend(message["content"], text);
  }
  messages.insert(messages.begin(), Json{{"role", "user"}, {"content", text}});
}

/// Whether the template writes calls of before, or their results, in a way of its own.
bool TemplateKnowsCalls(const LanguageModel& model) {
  const std::string_view source = model.ChatTemplateSource();
  for (const char* word : {"tool_calls", "'tool'", "\"tool\""}) {
    if (source.find(word) != std::string_view::npos) return true;
  }
  return false;
}

}  // namespace

bool TemplateKnowsTools(const LanguageModel& model) {
  return !model.ChatTemplateSource("tool_use").empty() ||
         model.ChatTemplateSource().find("tools") != std::string_view::npos;
}

void TellOfTools(const LanguageModel& model, const ChatLimits& limits, ChatInputs& inputs) {
  Json messages = json::ParseOrdered(inputs.messages, "the messages", kDeepest);
  if (!TemplateKnowsCalls(model)) messages = WithoutCalls(std::move(messages));
  if (!inputs.tools.empty()) {
    const std::string tools = std::exchange(inputs.tools, "");
    const std::string text = TextOf(json::ParseOrdered(tools, "the tools", kDeepest));
    TellInMessages(model, text, inputs, limits, messages);
  }
  inputs.messages = messages.dump();
}

}  // namespace oort::openai
