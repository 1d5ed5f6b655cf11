// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>

#include "core/problems.h"
#include "openai/answer_parts.h"
#include "openai/common_fields.h"
#include "openai/told_tools.h"
#include "openai/tools.h"

namespace oort::openai {
namespace {

constexpr std::array kRoles = {"system", "developer", "user", "assistant", "tool"};

/// Text, or a list of parts: what is text alone becomes one text, as all templates take it.
Json ReadContent(const Json& content, const std::string& path, const Limits& limits,
                 std::vector<PictureSource>& pictures) {
  if (content.is_string()) return content;
  if (!content.is_array()) {
    throw RequestError(path, Quote(path) + " must be a string or a list of parts");
  }
  if (content.size() > limits.parts) {
    throw RequestError(path,
                       Quote(path) + " has more than " + std::to_string(limits.parts) + " parts");
  }
  std::string text;
  Json parts = Json::array();
  bool has_pictures = false;
  for (size_t i = 0; i < content.size(); ++i) {
    Fields part(content[i], ItemPath(path, i));
    const std::string type(part.Text("type").value_or(""));
    if (type == "image_url") {
      if (pictures.size() == limits.pictures) {
        part.Fail("image_url", "is one picture more than the " + std::to_string(limits.pictures) +
                                   " that a request may have");
      }
      pictures.push_back(ReadPictureSource(part));
      has_pictures = true;
      parts.push_back({{"type", "image"}});
    } else if (type == "text") {
      const auto words = part.Text("text");
      if (!words) part.Fail("text", "is missing");
      text += *words;
      parts.push_back({{"type", "text"}, {"text", *words}});
    } else {
      part.Fail("type",
                "is " + Quote(type) + ": parts of text are read, and by some models pictures");
    }
    part.CheckAllKnown();
  }
  if (has_pictures) return parts;
  return text;
}

/// As templates want them: arguments as an object where the text is one.
Json ReadToolCalls(const Json& calls, const std::string& path) {
  Json result = Json::array();
  for (size_t i = 0; i < calls.size(); ++i) {
    Fields call(calls[i], ItemPath(path, i));
    const Json* function = call.Object("function");
    if (function == nullptr) call.Fail("function", "is missing");
    Fields inner(*function, call.PathOf("function"));
    if (!inner.Text("name")) inner.Fail("name", "is missing");
    Json copy = calls[i];
    const Json* arguments = inner.Find("arguments");
    if (arguments != nullptr && !arguments->is_string() && !arguments->is_object()) {
      inner.Fail("arguments", "must be a string of JSON, or an object");
    }
    ParseArguments(copy["function"]);
    result.push_back(std::move(copy));
  }
  return result;
}

Json ReadMessage(const Json& given, const std::string& path, const Limits& limits,
                 std::vector<PictureSource>& pictures) {
  Fields fields(given, path);
  const std::string role(fields.Text("role").value_or(""));
  if (std::ranges::find(kRoles, role) == kRoles.end()) {
    fields.Fail("role", "must be one of system, developer, user, assistant and tool");
  }
  Json message = Json::object();
  message["role"] = role;
  const Json* calls = fields.List("tool_calls", limits.parts);
  const bool has_calls = calls != nullptr && !calls->empty();
  if (const Json* content = fields.Find("content")) {
    message["content"] = ReadContent(*content, fields.PathOf("content"), limits, pictures);
  } else if (role == "assistant" && has_calls) {
    message["content"] = nullptr;
  } else {
    fields.Fail("content", "is missing");
  }
  if (has_calls) message["tool_calls"] = ReadToolCalls(*calls, fields.PathOf("tool_calls"));
  for (const char* key : {"name", "tool_call_id", "reasoning_content", "reasoning", "thinking"}) {
    if (const auto text = fields.Text(key)) message[key] = *text;
  }
  fields.Ignore({"annotations"});  // of answers that clients send back
  fields.CheckAllKnown();
  return message;
}

std::string ReadMessages(Fields& fields, const Limits& limits,
                         std::vector<PictureSource>& pictures) {
  const Json* given = fields.List("messages", limits.messages);
  if (given == nullptr || given->empty()) fields.Fail("messages", "must have at least one message");
  Json messages = Json::array();
  for (size_t i = 0; i < given->size(); ++i) {
    messages.push_back(ReadMessage((*given)[i], ItemPath("messages", i), limits, pictures));
  }
  return messages.dump();
}

/// What OpenAI has for other models.
void RefuseOthers(Fields& fields) {
  const Json* modalities = fields.List("modalities", 8);
  if (modalities != nullptr && *modalities != Json::array({"text"})) {
    fields.Fail("modalities", "must be [\"text\"]");
  }
  fields.Refuse("audio", "answers are text");
  fields.Refuse("prediction", "predicted outputs are not available");
  fields.Refuse("web_search_options", "nothing is looked up here");
  fields.Refuse("verbosity", "say it in a message");
  fields.Refuse("chat_template", "the one that came with the model is used");
}

void ReadLogprobs(Fields& fields, CommonFields& common, const Limits& limits) {
  common.call.logprobs = fields.Bool("logprobs").value_or(false);
  const auto top = fields.Integer("top_logprobs", 0, limits.top_logprobs);
  if (top && !common.call.logprobs) {
    fields.Fail("top_logprobs", "is taken only with \"logprobs\": true");
  }
  if (common.call.logprobs) {
    common.request.sampling.top_logprobs = static_cast<int>(top.value_or(0));
  }
}

/// OpenAI's name for a variable that some templates have.
void ReadEffort(Fields& fields, const ServedModel& served, ChatInputs& inputs) {
  if (!KnowsEffort(served)) {
    fields.Refuse("reasoning_effort",
                  "pass what the model's template knows in \"chat_template_kwargs\"");
  }
  const auto effort = fields.Text("reasoning_effort");
  if (!effort) return;
  if (*effort != "low" && *effort != "medium" && *effort != "high") {
    fields.Fail("reasoning_effort", "must be \"low\", \"medium\" or \"high\"");
  }
  Json variables = inputs.variables.empty() ? Json::object()
                                            : json::ParseOrdered(inputs.variables, "the variables");
  variables["reasoning_effort"] = *effort;
  inputs.variables = variables.dump();
}

/// Whether reasoning is told apart from the answer, by llama.cpp's name for that.
bool ReadReasoningFormat(Fields& fields) {
  const std::string_view format = fields.Text("reasoning_format").value_or("auto");
  if (format != "none" && format != "auto" && format != "deepseek") {
    fields.Fail("reasoning_format", "must be \"none\", \"auto\" or \"deepseek\"");
  }
  return format != "none";
}

}  // namespace

ChatInputs ReadChatInputs(Fields& fields, const LanguageModel& model, const std::string& tools,
                          const Limits& limits, std::vector<PictureSource>& pictures) {
  ChatInputs inputs;
  inputs.tools = tools;
  inputs.messages = ReadMessages(fields, limits, pictures);
  const auto begins = fields.Bool("add_generation_prompt");
  inputs.add_generation_prompt = begins.value_or(true);
  inputs.continue_final_message = fields.Bool("continue_final_message").value_or(false);
  if (inputs.continue_final_message && begins.value_or(false)) {
    fields.Fail("continue_final_message", "and \"add_generation_prompt\" exclude each other");
  }
  if (inputs.continue_final_message &&
      fields.List("messages", limits.messages)->back()["role"] != "assistant") {
    fields.Fail("continue_final_message", "needs a last message of the assistant");
  }
  if (const Json* variables = fields.Object("chat_template_kwargs")) {
    inputs.variables = variables->dump();
  }
  if (!TemplateKnowsTools(model)) TellOfTools(model, limits.chat_template, inputs);
  return inputs;
}

GenerateCall ParseChatRequest(const Json& body, const ServedModel& served, const Limits& limits,
                              const PictureGate& gate) {
  Fields fields(body);
  CommonFields common = ReadCommonFields(fields, served, limits);
  GenerateCall& call = common.call;
  call.endpoint = Endpoint::kChat;
  if (!common.max_tokens_given) common.request.max_tokens = served.max_tokens;
  if (common.request.max_tokens == 0) fields.Fail("max_tokens", "must be at least 1");
  ReadLogprobs(fields, common, limits);
  const ToolFields tools = ReadTools(fields, limits);
  RefuseOthers(fields);
  const bool splits = ReadReasoningFormat(fields);
  std::vector<PictureSource> sources;
  ChatInputs inputs = ReadChatInputs(fields, *served.model, tools.tools, limits, sources);
  ReadEffort(fields, served, inputs);
  fields.CheckAllKnown();
  ApplyTools(tools, served, common.holds_json, common.request, call);
  common.request.pictures = ReadPictures(sources, served, [&] {
    if (gate) gate(common.request);
  });
  std::vector<int32_t> prompt =
      served.model->EncodeChat(inputs, "default", limits.chat_template, common.request.pictures);
  if (splits) FindReasoning(*served.model, prompt, call.parts);
  // One that is held to a form begins with that, whatever the prompt has begun.
  if (common.request.constraint != nullptr) call.parts.begins_in_reasoning = false;
  FindChannels(*served.model, splits, prompt, common.request, call.parts);
  HoldStrictCalls(tools, served, common.request, call);
  AddPrompt(call, common.request, std::move(prompt), served, "messages");
  return std::move(call);
}

}  // namespace oort::openai
