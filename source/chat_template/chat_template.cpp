// SPDX-License-Identifier: MIT
#include "oort/chat_template.h"

#include <algorithm>

#include "chat_template/clock.h"
#include "chat_template/interpreter.h"
#include "chat_template/json.h"
#include "chat_template/parser.h"
#include "text/utf8.h"

namespace oort::jinja {
namespace {

/// A message's thoughts go by several names; templates find them under two.
Value WithReasoning(Budget* budget, const Value& message) {
  const Dict& fields = message.dict();
  const Value* reasoning = nullptr;
  for (const std::string_view name : {"reasoning_content", "thinking", "reasoning"}) {
    const Value* found = fields.Find(name);
    if (!found || found->Is(Kind::kNone)) continue;
    reasoning = found;
    break;
  }
  if (!reasoning) return message;
  auto copy = std::make_shared<Dict>(budget);
  copy->Set(Value::String(budget, "thinking"), *reasoning);
  for (const auto& [key, value] : fields.items) copy->Set(key, value);
  copy->Set(Value::String(budget, "reasoning_content"), *reasoning);
  return Value::Of(std::shared_ptr<const Dict>(std::move(copy)));
}

/// An array of objects; none where the text is empty.
Value ReadObjects(Budget* budget, const std::string& json, std::string_view what) {
  if (json.empty()) return Value::None();
  Value list = ParseJson(budget, json, what, true);
  const bool array = list.Is(Kind::kList);
  bool objects = array;
  for (size_t i = 0; objects && i < list.sequence().items.size(); ++i) {
    objects = list.sequence().items[i].Is(Kind::kDict);
  }
  if (list.Is(Kind::kNone) || objects) return list;
  throw Error(ErrorCode::kInvalidArgument, std::string(what) + " must be a JSON array of objects");
}

Value ReadMessages(Budget* budget, const std::string& json) {
  const Value list = ReadObjects(budget, json.empty() ? "[]" : json, "messages");
  if (list.Is(Kind::kNone)) {
    throw Error(ErrorCode::kInvalidArgument, "messages must be a JSON array of objects");
  }
  std::vector<Value> messages;
  for (const Value& message : list.sequence().items)
    messages.push_back(WithReasoning(budget, message));
  return Value::List(budget, std::move(messages));
}

void SetVariables(Interpreter& interpreter, const ChatInputs& inputs) {
  Budget* budget = interpreter.budget();
  for (const auto& [json, what] :
       {std::pair<const std::string&, const char*>(inputs.special_tokens, "special_tokens"),
        std::pair<const std::string&, const char*>(inputs.variables, "variables")}) {
    if (json.empty()) continue;
    const bool user = &json == &inputs.variables;
    const Value variables = ParseJson(budget, json, what, user);
    if (!variables.Is(Kind::kDict)) {
      throw Error(ErrorCode::kInvalidArgument, std::string(what) + " must be a JSON object");
    }
    for (const auto& [name, value] : variables.dict().items) {
      interpreter.SetVariable(name.str(), value);
    }
  }
  interpreter.SetVariable("messages", ReadMessages(budget, inputs.messages));
  interpreter.SetVariable("tools", ReadObjects(budget, inputs.tools, "tools"));
  interpreter.SetVariable("documents", ReadObjects(budget, inputs.documents, "documents"));
  interpreter.SetVariable("add_generation_prompt", Value::Bool(inputs.add_generation_prompt &&
                                                               !inputs.continue_final_message));
}

/// The text of the last message.
std::string LastContent(const std::string& messages) {
  Budget budget(INT64_MAX, SIZE_MAX);
  const Value list = ReadMessages(&budget, messages);
  const std::vector<Value>& items = list.sequence().items;
  const Value* content = items.empty() ? nullptr : items.back().dict().Find("content");
  if (content == nullptr || !content->Is(Kind::kString) ||
      content->str().find_first_not_of(" \t\r\n") == std::string::npos) {
    throw Error(ErrorCode::kInvalidArgument,
                "the last message has no text that an answer could go on with");
  }
  return content->str();
}

/// Cuts what the template writes behind the last message. Templates trim what they are given: white
/// space at the end stays where it was written.
void EndWith(MarkedText& rendered, const std::string& content) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t first = content.find_first_not_of(kSpace);
  const std::string_view whole = std::string_view(content).substr(first);
  const std::string_view trimmed = whole.substr(0, whole.find_last_not_of(kSpace) + 1);
  const size_t at = rendered.text.rfind(trimmed);
  const size_t behind = at + trimmed.size();
  const bool is_message =
      at != std::string::npos && std::ranges::any_of(rendered.user, [&](const TextRange& range) {
        return range.begin <= at && behind <= range.end;
      });
  if (!is_message) {
    throw Error(
        ErrorCode::kUnsupported,
        "the chat template does not write the last message as it is, so an answer cannot go "
        "on with it");
  }
  const bool has_space = std::string_view(rendered.text).substr(at).starts_with(whole);
  const size_t end = has_space ? at + whole.size() : behind;
  rendered.text.resize(end);
  rendered.user = RangesIn(rendered.user, {0, end});
}

Clock ReadClock(const std::optional<ChatTime>& now) {
  if (!now) return SystemClock();
  return {now->year, now->month, now->day, now->hour, now->minute, now->second, 0};
}

}  // namespace
}  // namespace oort::jinja

namespace oort {

struct ChatTemplate::Content {
  jinja::Template parsed;
};

ChatTemplate::ChatTemplate(std::shared_ptr<const Content> content) : content_(std::move(content)) {}

ChatTemplate ChatTemplate::Parse(std::string_view source) {
  // Those of models have up to a hundred thousand; each token of one takes a hundred bytes.
  constexpr size_t kMostBytes = size_t{4} << 20;
  if (source.size() > kMostBytes) {
    throw Error(ErrorCode::kInvalidModel, "the chat template is larger than 4 MiB");
  }
  auto content = std::make_shared<Content>();
  content->parsed = jinja::ParseTemplate(source);
  return ChatTemplate(std::move(content));
}

std::string ChatTemplate::Render(const ChatInputs& inputs, const ChatLimits& limits) const {
  return RenderMarked(inputs, limits).text;
}

RenderedChat ChatTemplate::RenderMarked(const ChatInputs& inputs, const ChatLimits& limits) const {
  jinja::Interpreter interpreter({limits.steps, limits.memory_bytes, limits.output_bytes},
                                 [&] { return jinja::ReadClock(inputs.now); });
  jinja::SetVariables(interpreter, inputs);
  try {
    jinja::MarkedText rendered = interpreter.Render(content_->parsed);
    if (inputs.continue_final_message) {
      jinja::EndWith(rendered, jinja::LastContent(inputs.messages));
    }
    return {std::move(rendered.text), std::move(rendered.user)};
  } catch (const Error& error) {
    throw error.WithContext("chat template, line " + std::to_string(interpreter.line()) + ": ");
  }
}

std::string ToJson(std::span<const ChatMessage> messages) {
  jinja::Budget budget(INT64_MAX, SIZE_MAX);
  std::vector<jinja::Value> list;
  for (const ChatMessage& message : messages) {
    if (!text::IsValidUtf8(message.role) || !text::IsValidUtf8(message.content)) {
      throw Error(ErrorCode::kInvalidArgument, "a chat message is not valid UTF-8");
    }
    auto fields = std::make_shared<jinja::Dict>(&budget);
    fields->Set(jinja::Value::String(&budget, "role"), jinja::Value::String(&budget, message.role));
    fields->Set(jinja::Value::String(&budget, "content"),
                jinja::Value::String(&budget, message.content));
    list.push_back(jinja::Value::Of(std::shared_ptr<const jinja::Dict>(std::move(fields))));
  }
  return jinja::DumpJson(budget, jinja::Value::List(&budget, std::move(list)), {});
}

}  // namespace oort
