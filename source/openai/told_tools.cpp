// SPDX-License-Identifier: MIT
#include "openai/told_tools.h"

#include <string>
#include <utility>

#include "oort/error.h"
#include "text/json.h"

namespace oort::openai {
namespace {

using Json = json::OrderedJson;

std::string InTags(const std::string& tag, const std::string& text) {
  return "<" + tag + ">\n" + text + "\n</" + tag + ">";
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

/// Content is a text, parts of one, or null.
void AddText(Json& content, const std::string& text, bool in_front) {
  if (content.is_array()) {
    const Json part = {{"type", "text"}, {"text", text}};
    content.insert(in_front ? content.begin() : content.end(), part);
    return;
  }
  const std::string held = content.is_string() ? content.get<std::string>() : "";
  const std::string gap = held.empty() ? "" : "\n\n";
  content = in_front ? text + gap + held : held + gap + text;
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
  if (!message.contains("content")) message["content"] = nullptr;
  AddText(message["content"], text, false);
  message.erase("tool_calls");
}

std::string TextOfResult(const Json& message) {
  const Json& content = message["content"];
  return InTags("tool_response", content.is_string() ? content.get<std::string>() : content.dump());
}

/// Results become what the user says, those of one answer together.
Json WithoutCalls(const Json& messages) {
  Json result = Json::array();
  bool after_result = false;
  for (Json message : messages) {
    const bool is_result = message["role"] == "tool";
    if (is_result && after_result) {
      AddText(result.back()["content"], TextOfResult(message), false);
    } else if (is_result) {
      result.push_back({{"role", "user"}, {"content", TextOfResult(message)}});
    } else {
      if (message.contains("tool_calls")) WriteCallsAsText(message);
      result.push_back(std::move(message));
    }
    after_result = is_result;
  }
  return result;
}

bool TakesSystemMessages(const LanguageModel& model) {
  ChatInputs inputs;
  inputs.messages = R"([{"role":"system","content":"tools"},{"role":"user","content":"?"}])";
  try {
    return model.FormatChat(inputs).find("tools") != std::string::npos;
  } catch (const Error&) {  // what the template raises
    return false;
  }
}

void TellInMessages(const LanguageModel& model, const std::string& text, Json& messages) {
  const std::string first = messages.front()["role"];
  if (first == "system" || first == "developer") {
    return AddText(messages.front()["content"], text, false);
  }
  if (TakesSystemMessages(model)) {
    messages.insert(messages.begin(), Json{{"role", "system"}, {"content", text}});
    return;
  }
  for (Json& message : messages) {
    if (message["role"] == "user") return AddText(message["content"], text, true);
  }
  messages.insert(messages.begin(), Json{{"role", "user"}, {"content", text}});
}

}  // namespace

bool TemplateKnowsTools(const LanguageModel& model) {
  return !model.ChatTemplateSource("tool_use").empty() ||
         model.ChatTemplateSource().find("tools") != std::string_view::npos;
}

void TellOfTools(const LanguageModel& model, ChatInputs& inputs) {
  Json messages = WithoutCalls(Json::parse(inputs.messages));
  if (!inputs.tools.empty()) {
    TellInMessages(model, TextOf(Json::parse(std::exchange(inputs.tools, ""))), messages);
  }
  inputs.messages = messages.dump();
}

}  // namespace oort::openai
