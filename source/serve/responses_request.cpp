// SPDX-License-Identifier: MIT
#include <algorithm>

#include "core/problems.h"
#include "serve/responses.h"

namespace oort::serve {
namespace {

using openai::Fields;
using openai::ItemPath;
using openai::Json;

/// What is made of a request.
struct ResponsesRequest {
  Json &chat, &told;
  openai::FieldNames& names;
};

/// {"type": "input_text", "text"}
std::string_view PartText(Fields& part) {
  const std::string type(part.Text("type").value_or(""));
  if (type != "input_text" && type != "output_text" && type != "text" && type != "reasoning_text") {
    part.Fail("type", "is " + Quote(type) + ": this model reads parts of text only");
  }
  const auto words = part.Text("text");
  if (!words) part.Fail("text", "is missing");
  part.Ignore({"annotations", "logprobs"});  // of answers that clients send back
  part.CheckAllKnown();
  return *words;
}

/// Text, or parts of it, as one text.
std::string ContentText(const Json& content, const std::string& path) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) {
    throw openai::RequestError(path, Quote(path) + " must be a string or a list of parts");
  }
  std::string text;
  for (size_t i = 0; i < content.size(); ++i) {
    Fields part(content[i], ItemPath(path, i));
    text += PartText(part);
  }
  return text;
}

/// The same of `message`, which may have pictures: {"type": "input_image", "image_url"}.
Json MessageContent(const Json& content, const std::string& path, const std::string& message,
                    openai::FieldNames& names) {
  names.Add(message + ".content", path);
  const auto is_picture = [](const Json& part) {
    return part.is_object() && part.value("type", Json()) == "input_image";
  };
  if (!content.is_array() || std::ranges::none_of(content, is_picture)) {
    return ContentText(content, path);
  }
  Json parts = Json::array();
  for (size_t i = 0; i < content.size(); ++i) {
    Fields part(content[i], ItemPath(path, i));
    if (!is_picture(content[i])) {
      parts.push_back({{"type", "text"}, {"text", PartText(part)}});
      continue;
    }
    part.Ignore({"type", "detail"});
    const auto url = part.Text("image_url");
    if (!url) part.Fail("image_url", "is missing");
    part.CheckAllKnown();
    parts.push_back({{"type", "image_url"}, {"image_url", {{"url", *url}}}});
    names.Add(ItemPath(message + ".content", i) + ".image_url.url", part.PathOf("image_url"));
  }
  return parts;
}

/// The items of a conversation as messages of a chat.
class InputReader {
 public:
  InputReader(Json& messages, openai::FieldNames& names) : messages_(messages), names_(names) {}

  void Add(const Json& given, const std::string& path) {
    Fields item(given, path);
    const std::string type(item.Text("type").value_or("message"));
    item.Ignore({"id", "status"});
    if (type == "message") {
      AddMessage(item);
    } else if (type == "function_call") {
      AddCall(item);
    } else if (type == "function_call_output") {
      AddOutput(item);
    } else if (type == "reasoning") {
      item.Ignore({"summary", "encrypted_content"});
      if (const Json* content = item.Find("content")) {
        reasoning_ += ContentText(*content, item.PathOf("content"));
      }
    } else {
      item.Fail("type", "is " + Quote(type) + ", which is not known here");
    }
    item.CheckAllKnown();
  }

 private:
  /// The message of the model that what comes now belongs to.
  Json& Assistant() {
    if (messages_.empty() || messages_.back()["role"] != "assistant") {
      messages_.push_back({{"role", "assistant"}, {"content", nullptr}});
    }
    Json& message = messages_.back();
    if (!reasoning_.empty()) message["reasoning_content"] = std::exchange(reasoning_, {});
    return message;
  }
  void AddMessage(Fields& item) {
    const std::string role(item.Text("role").value_or(""));
    const Json* content = item.Find("content");
    if (content == nullptr) item.Fail("content", "is missing");
    const Json said = MessageContent(*content, item.PathOf("content"), Next(), names_);
    if (role == "assistant") {
      messages_.push_back({{"role", role}, {"content", nullptr}});
      Assistant()["content"] = said;
    } else {
      messages_.push_back({{"role", role}, {"content", said}});
    }
  }
  void AddCall(Fields& item) {
    const auto id = item.Text("call_id"), name = item.Text("name");
    const auto arguments = item.Text("arguments");
    if (!id) item.Fail("call_id", "is missing");
    if (!name) item.Fail("name", "is missing");
    Json& message = Assistant();
    if (!message.contains("tool_calls")) message["tool_calls"] = Json::array();
    message["tool_calls"].push_back(
        {{"id", *id},
         {"type", "function"},
         {"function", {{"name", *name}, {"arguments", arguments.value_or("{}")}}}});
  }
  void AddOutput(Fields& item) {
    const auto id = item.Text("call_id");
    const Json* output = item.Find("output");
    if (!id) item.Fail("call_id", "is missing");
    if (output == nullptr) item.Fail("output", "is missing");
    messages_.push_back(
        {{"role", "tool"},
         {"tool_call_id", *id},
         {"content", MessageContent(*output, item.PathOf("output"), Next(), names_)}});
  }
  std::string Next() const { return ItemPath("messages", messages_.size()); }

  Json& messages_;
  openai::FieldNames& names_;
  std::string reasoning_;
};

/// {"type": "function", "name", "parameters"} has its function inside in a chat.
Json ChatTool(const Json& given, const std::string& path) {
  Fields tool(given, path);
  const std::string type(tool.Text("type").value_or(""));
  if (type != "function") {
    tool.Fail("type", "is " + Quote(type) + ": tools here are of type \"function\"");
  }
  Json function = given;
  function.erase("type");
  return {{"type", "function"}, {"function", std::move(function)}};
}

void ReadTools(Fields& fields, const ResponsesRequest& request) {
  Json& chat = request.chat;
  if (const Json* tools = fields.List("tools", SIZE_MAX)) {
    chat["tools"] = Json::array();
    for (size_t i = 0; i < tools->size(); ++i) {
      chat["tools"].push_back(ChatTool((*tools)[i], ItemPath("tools", i)));
      request.names.Add(ItemPath("tools", i) + ".function", ItemPath("tools", i));
    }
    request.told["tools"] = *tools;
  }
  const Json* choice = fields.Find("tool_choice");
  if (choice != nullptr) {
    request.told["tool_choice"] = *choice;
    chat["tool_choice"] = choice->is_object() ? ChatTool(*choice, "tool_choice") : *choice;
  }
  if (const auto parallel = fields.Bool("parallel_tool_calls")) {
    chat["parallel_tool_calls"] = request.told["parallel_tool_calls"] = *parallel;
  }
}

/// text: {"format": {…}}
void ReadFormat(Fields& fields, const ResponsesRequest& request) {
  const Json* text = fields.Object("text");
  if (text == nullptr) return;
  Fields inner(*text, "text");
  inner.Refuse("verbosity", "say it in a message");
  const Json* given = inner.Object("format");
  inner.CheckAllKnown();
  request.told["text"] = *text;
  if (given == nullptr) return;
  Fields format(*given, "text.format");
  const std::string type(format.Text("type").value_or(""));
  if (type == "json_schema") {
    Json schema = *given;
    schema.erase("type");
    request.chat["response_format"] = {{"type", type}, {"json_schema", std::move(schema)}};
  } else {
    request.chat["response_format"] = *given;
  }
}

/// What needs a server that remembers, or other models.
void RefuseState(Fields& fields) {
  if (fields.Bool("store").value_or(false)) {
    fields.Fail("store", "is not taken: nothing is stored here");
  }
  if (fields.Bool("background").value_or(false)) {
    fields.Fail("background", "is not taken: answers come with their request");
  }
  for (const char* key : {"previous_response_id", "conversation"}) {
    fields.Refuse(key, "nothing is stored here: send the whole conversation as \"input\"");
  }
  fields.Refuse("prompt", "no prompts are stored here");
  fields.Refuse("max_tool_calls", "the tools are the caller's");
  if (fields.Text("truncation").value_or("disabled") != "disabled") {
    fields.Fail("truncation", "must be \"disabled\": nothing is cut in silence");
  }
  const Json* include = fields.List("include", 16);
  if (include != nullptr) {
    for (const Json& what : *include) {
      if (what != "reasoning.encrypted_content") {
        fields.Fail("include", "asks for " + what.dump() + ", which is not available");
      }
    }
  }
  fields.Ignore({"user", "metadata", "service_tier", "safety_identifier", "prompt_cache_key",
                 "prompt_cache_retention", "stream_options"});
}

}  // namespace

Json FromResponses(Fields& fields, Json& told, openai::FieldNames& names) {
  Json chat = Json::object();
  told = Json::object();
  names = {{"max_tokens", "max_output_tokens"},
           {"messages", "input"},
           {"tool_choice.function", "tool_choice"},
           {"response_format", "text.format"},
           {"response_format.json_schema", "text.format"}};
  const ResponsesRequest request{chat, told, names};
  for (const char* name : {"model", "temperature", "top_p", "stream", "top_k", "seed"}) {
    if (const Json* value = fields.Find(name)) chat[name] = *value;
  }
  for (const char* name : {"temperature", "top_p"}) {
    if (chat.contains(name)) told[name] = chat[name];
  }
  if (const Json* most = fields.Find("max_output_tokens")) {
    chat["max_tokens"] = told["max_output_tokens"] = *most;
  }
  chat["messages"] = Json::array();
  if (const auto instructions = fields.Text("instructions")) {
    chat["messages"].push_back({{"role", "system"}, {"content", *instructions}});
    told["instructions"] = *instructions;
    names.Add("messages[0]", "instructions");
  }
  const Json* input = fields.Find("input");
  if (input == nullptr) fields.Fail("input", "is missing");
  if (input->is_string()) {
    names.Add(ItemPath("messages", chat["messages"].size()), "input");
    chat["messages"].push_back({{"role", "user"}, {"content", *input}});
  } else {
    const Json* items = fields.List("input", SIZE_MAX);
    InputReader reader(chat["messages"], names);
    for (size_t i = 0; i < items->size(); ++i) {
      const size_t begin = chat["messages"].size();
      reader.Add((*items)[i], ItemPath("input", i));
      // Several items may be one message: it is named by the first.
      for (size_t made = begin; made < chat["messages"].size(); ++made) {
        names.Add(ItemPath("messages", made), ItemPath("input", i));
      }
    }
  }
  ReadTools(fields, request);
  ReadFormat(fields, request);
  if (const Json* reasoning = fields.Object("reasoning")) {
    Fields inner(*reasoning, "reasoning");
    inner.Refuse("effort", "pass what the model's template knows in \"chat_template_kwargs\"");
    inner.Refuse("summary", "reasoning is told as it is");
    inner.CheckAllKnown();
  }
  if (const Json* variables = fields.Object("chat_template_kwargs")) {
    chat["chat_template_kwargs"] = *variables;
  }
  RefuseState(fields);
  fields.CheckAllKnown();
  return chat;
}

}  // namespace oort::serve
