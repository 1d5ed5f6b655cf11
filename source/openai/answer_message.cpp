// SPDX-License-Identifier: MIT
#include "openai/answer_message.h"

#include <random>
#include <utility>

namespace oort::openai {

std::string RandomId(std::string_view prefix, int length) {
  static constexpr std::string_view kDigits = "0123456789abcdefghijklmnopqrstuv";
  std::random_device random;
  std::string id(prefix);
  for (int i = 0; i < length; ++i) id += kDigits[random() % kDigits.size()];
  return id;
}

MessageReader::MessageReader(const AnswerParserOptions& parts, bool parallel)
    : parser_(parts), style_(parts.tools), parallel_(parallel) {}

MessageReader::MessageReader(const GenerateCall& call)
    : MessageReader(call.parts, call.parallel_calls) {}

AnswerDelta MessageReader::Push(std::string_view text) { return Checked(parser_.Push(text)); }
AnswerDelta MessageReader::Finish() { return Checked(parser_.Finish()); }

AnswerDelta MessageReader::Checked(AnswerDelta delta) {
  std::vector<ToolCallDelta> kept;
  for (ToolCallDelta& part : delta.calls) {
    if (!parallel_ && part.index > 0) continue;
    if (!part.name.empty()) {
      ++calls_;
      // Templates of Mistral want ids of nine characters back.
      const bool mistral = style_ == ToolStyle::kMistral;
      if (part.id.empty()) part.id = mistral ? RandomId("", 9) : RandomId("call_");
    }
    kept.push_back(std::move(part));
  }
  delta.calls = std::move(kept);
  // Behind the one call that may be there, text would be about the others.
  if (!parallel_ && calls_ > 0) delta.content.clear();
  return delta;
}

std::string TextOf(const GenerateCall& call, const GeneratedAnswer& answer) {
  return call.include_stop ? answer.text + answer.stop : answer.text;
}

AnswerMessage ReadMessage(MessageReader reader, std::string_view text) {
  AnswerMessage message;
  for (const AnswerDelta& delta : {reader.Push(text), reader.Finish()}) {
    message.content += delta.content;
    message.reasoning += delta.reasoning;
    for (const ToolCallDelta& part : delta.calls) {
      if (!part.name.empty()) message.calls.push_back({part.id, part.name, {}});
      message.calls.back().arguments += part.arguments;
    }
  }
  return message;
}

AnswerMessage ReadMessage(const GenerateCall& call, const GeneratedAnswer& answer) {
  return ReadMessage(MessageReader(call), TextOf(call, answer));
}

std::string_view FinishName(const GeneratedAnswer& answer, int calls) {
  switch (answer.finish) {
    case FinishReason::kStop: return calls > 0 ? "tool_calls" : "stop";
    case FinishReason::kLength:
    case FinishReason::kDeadline: return "length";
    case FinishReason::kCancelled: return "cancelled";
  }
  return "stop";
}

void WriteEndedBy(JsonWriter& out, const GeneratedAnswer& answer) {
  if (answer.finish == FinishReason::kDeadline) out.Key("ended_by").String("deadline");
}

}  // namespace oort::openai
