// SPDX-License-Identifier: MIT
#include "core/problems.h"
#include "serve/anthropic.h"

namespace oort::serve {
namespace {

using openai::Fields;
using openai::ItemPath;
using openai::Json;

/// Text, or blocks of text, as OpenAI's "content". Marks of where a prompt may be cached go: here
/// every beginning is.
Json TextContent(const Json& content, const std::string& path) {
  if (!content.is_array()) return content;
  Json parts = Json::array();
  for (size_t i = 0; i < content.size(); ++i) {
    Fields block(content[i], ItemPath(path, i));
    Json part = content[i];
    part.erase("cache_control");
    parts.push_back(std::move(part));
  }
  return parts;
}

/// {"type": "tool_use", "id", "name", "input"} as one of "tool_calls".
Json ToolUse(Fields& block) {
  const auto id = block.Text("id"), name = block.Text("name");
  if (!id) block.Fail("id", "is missing");
  if (!name) block.Fail("name", "is missing");
  const Json* input = block.Object("input");
  block.Ignore({"type", "cache_control"});
  block.CheckAllKnown();
  return {
      {"id", *id},
      {"type", "function"},
      {"function", {{"name", *name}, {"arguments", input == nullptr ? Json::object() : *input}}}};
}

/// {"type": "image", "source": {"type": "base64", "media_type", "data"}} as a part of OpenAI's.
Json PicturePart(Fields& block) {
  const Json* given = block.Object("source");
  if (given == nullptr) block.Fail("source", "is missing");
  Fields source(*given, block.PathOf("source"));
  if (source.Text("type") != "base64") {
    source.Fail("type", "must be \"base64\": nothing is fetched for who asks");
  }
  const auto type = source.Text("media_type"), data = source.Text("data");
  if (!type) source.Fail("media_type", "is missing");
  if (type->find_first_of(",;") != type->npos) source.Fail("media_type", "is no media type");
  if (!data) source.Fail("data", "is missing");
  source.CheckAllKnown();
  block.Ignore({"type", "cache_control"});
  block.CheckAllKnown();
  const std::string url = "data:" + std::string(*type) + ";base64," + std::string(*data);
  return {{"type", "image_url"}, {"image_url", {{"url", url}}}};
}

/// Blocks of text and pictures as parts of a message of OpenAI's.
class ContentParts {
 public:
  void Add(const Json& given, Fields& block) {
    const std::string type(block.Text("type").value_or(""));
    if (type == "image") {
      parts_.push_back(PicturePart(block));
    } else {
      parts_.push_back(given);
      parts_.back().erase("cache_control");
    }
    paths_.push_back(block.path());
  }
  bool empty() const { return parts_.empty(); }
  /// The parts, where those of `content` in the message are known by what they were made of.
  Json Take(const std::string& content, openai::FieldNames& names) {
    for (size_t i = 0; i < paths_.size(); ++i) {
      const std::string part = ItemPath(content, i);
      names.Add(part, paths_[i]);
      names.Add(part + ".image_url", paths_[i] + ".source");
      names.Add(part + ".image_url.url", paths_[i] + ".source.data");
    }
    return std::move(parts_);
  }

 private:
  Json parts_ = Json::array();
  std::vector<std::string> paths_;
};

/// {"type": "tool_result", "tool_use_id", "content"} as a message of its own, which will be
/// `message`.
Json ToolResult(Fields& block, const std::string& message, openai::FieldNames& names) {
  const auto id = block.Text("tool_use_id");
  if (!id) block.Fail("tool_use_id", "is missing");
  block.Bool("is_error");  // its content says so
  const Json* given = block.Find("content");
  block.Ignore({"type", "cache_control"});
  block.CheckAllKnown();
  Json content = given == nullptr ? Json("") : *given;
  names.Add(message + ".content", block.PathOf("content"));
  if (content.is_array()) {
    ContentParts parts;
    for (size_t i = 0; i < given->size(); ++i) {
      Fields part((*given)[i], ItemPath(block.PathOf("content"), i));
      parts.Add((*given)[i], part);
    }
    content = parts.Take(message + ".content", names);
  }
  return {{"role", "tool"}, {"tool_call_id", *id}, {"content", std::move(content)}};
}

/// One message of Anthropic's may be several of OpenAI's: each result of a tool is one.
void AddMessage(Json& messages, const Json& given, const std::string& path,
                openai::FieldNames& names) {
  const auto next = [&] { return ItemPath("messages", messages.size()); };
  Fields fields(given, path);
  const std::string role(fields.Text("role").value_or(""));
  const Json* content = fields.Find("content");
  fields.CheckAllKnown();
  if (role != "user" && role != "assistant") {
    fields.Fail("role", "must be \"user\" or \"assistant\"");
  }
  if (content == nullptr) fields.Fail("content", "is missing");
  if (!content->is_array()) {
    messages.push_back({{"role", role}, {"content", *content}});
    return;
  }
  ContentParts parts;
  Json calls = Json::array();
  std::string reasoning;
  for (size_t i = 0; i < content->size(); ++i) {
    Fields block((*content)[i], ItemPath(fields.PathOf("content"), i));
    const std::string type(block.Text("type").value_or(""));
    if (type == "tool_result" && role == "user") {
      messages.push_back(ToolResult(block, next(), names));
    } else if (type == "tool_use" && role == "assistant") {
      calls.push_back(ToolUse(block));
    } else if (type == "thinking" && role == "assistant") {
      reasoning += block.Text("thinking").value_or("");
    } else if (type == "image" && role != "user") {
      block.Fail("type", "is \"image\", which only messages of the user have");
    } else {
      parts.Add((*content)[i], block);
    }
  }
  if (parts.empty() && calls.empty() && role == "user") return;
  Json message = {{"role", role}};
  const bool is_empty = parts.empty() && !calls.empty();
  message["content"] = is_empty ? Json() : parts.Take(next() + ".content", names);
  if (!reasoning.empty()) message["reasoning_content"] = reasoning;
  if (!calls.empty()) message["tool_calls"] = std::move(calls);
  messages.push_back(std::move(message));
}

Json Tools(const Json& given, const std::string& path) {
  Json tools = Json::array();
  for (size_t i = 0; i < given.size(); ++i) {
    Fields tool(given[i], ItemPath(path, i));
    const std::string type(tool.Text("type").value_or("custom"));
    if (type != "custom")
      tool.Fail("type", "is " + Quote(type) + ": only \"custom\" is known here");
    Json function = Json::object();
    if (const auto name = tool.Text("name")) function["name"] = *name;
    if (const auto text = tool.Text("description")) function["description"] = *text;
    if (const Json* schema = tool.Object("input_schema")) function["parameters"] = *schema;
    if (const auto strict = tool.Bool("strict")) function["strict"] = *strict;
    tool.Ignore({"cache_control"});
    tool.CheckAllKnown();
    tools.push_back({{"type", "function"}, {"function", std::move(function)}});
  }
  return tools;
}

void CopyToolChoice(Fields& fields, Json& body) {
  const Json* given = fields.Object("tool_choice");
  if (given == nullptr) return;
  Fields choice(*given, fields.PathOf("tool_choice"));
  const std::string type(choice.Text("type").value_or(""));
  const auto name = choice.Text("name");
  if (choice.Bool("disable_parallel_tool_use").value_or(false)) {
    body["parallel_tool_calls"] = false;
  }
  choice.CheckAllKnown();
  if (type == "tool") {
    if (!name) choice.Fail("name", "is missing");
    body["tool_choice"] = {{"type", "function"}, {"function", {{"name", *name}}}};
  } else if (type == "any") {
    body["tool_choice"] = "required";
  } else if (type == "auto" || type == "none") {
    body["tool_choice"] = type;
  } else {
    choice.Fail("type", "must be \"auto\", \"any\", \"tool\" or \"none\"");
  }
}

}  // namespace

Json FromAnthropic(Fields& fields, bool counts, openai::FieldNames* names) {
  openai::FieldNames unread;
  if (names == nullptr) names = &unread;
  *names = {{"stop", "stop_sequences"}, {"chat_template_kwargs", "thinking"}};
  Json body = Json::object();
  for (const char* name : {"model", "max_tokens", "temperature", "top_p", "top_k", "stream"}) {
    if (const Json* value = fields.Find(name)) body[name] = *value;
  }
  if (!body.contains("max_tokens") && !counts) fields.Fail("max_tokens", "is missing");
  const Json* stops = fields.List("stop_sequences", SIZE_MAX);
  if (stops != nullptr && !stops->empty()) body["stop"] = *stops;
  const Json* messages = fields.List("messages", SIZE_MAX);
  if (messages == nullptr || messages->empty()) {
    fields.Fail("messages", "must have at least one message");
  }
  body["messages"] = Json::array();
  if (const Json* system = fields.Find("system")) {
    body["messages"].push_back({{"role", "system"}, {"content", TextContent(*system, "system")}});
    names->Add("messages[0]", "system");
    names->Add("messages[0].content", "system");
  }
  for (size_t i = 0; i < messages->size(); ++i) {
    const size_t begin = body["messages"].size();
    AddMessage(body["messages"], (*messages)[i], ItemPath("messages", i), *names);
    for (size_t made = begin; made < body["messages"].size(); ++made) {
      names->Add(ItemPath("messages", made), ItemPath("messages", i));
    }
  }
  if (const Json* tools = fields.List("tools", SIZE_MAX)) {
    body["tools"] = Tools(*tools, "tools");
    for (size_t i = 0; i < tools->size(); ++i) {
      const std::string tool = ItemPath("tools", i);
      names->Add(tool + ".function", tool);
      names->Add(tool + ".function.parameters", tool + ".input_schema");
    }
  }
  CopyToolChoice(fields, body);
  if (const Json* thinking = fields.Object("thinking")) {
    Fields inner(*thinking, "thinking");
    const std::string type(inner.Text("type").value_or(""));
    if (type != "enabled" && type != "disabled" && type != "adaptive") {
      inner.Fail("type", "must be \"enabled\", \"adaptive\" or \"disabled\"");
    }
    inner.Refuse("budget_tokens", "how long it thinks is the model's own");
    inner.CheckAllKnown();
    // What is adaptive is the template's to say.
    if (type != "adaptive") {
      body["chat_template_kwargs"] = {{"enable_thinking", type == "enabled"}};
    }
  }
  fields.Ignore({"metadata", "service_tier"});
  fields.CheckAllKnown();
  return body;
}

}  // namespace oort::serve
