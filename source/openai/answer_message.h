// SPDX-License-Identifier: MIT
// The answer of a chat as a message: its text, its reasoning, and the tools that it calls.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "oort/tool_calls.h"
#include "openai/generate_call.h"
#include "openai/json_writer.h"

namespace oort::openai {

struct ToolCall {
  std::string id, name;
  std::string arguments;  ///< JSON
};

struct AnswerMessage {
  std::string content, reasoning;
  std::vector<ToolCall> calls;
};

/// Takes one answer apart while it comes, and keeps the first of its calls where they may not be
/// several (`parallel`). Every call that it finds has an id. Thread contract: one thread at a time.
class MessageReader {
 public:
  explicit MessageReader(const AnswerParserOptions& parts, bool parallel = true);
  /// As the call's request allows.
  explicit MessageReader(const GenerateCall& call);

  AnswerDelta Push(std::string_view text);
  /// What was held back.
  AnswerDelta Finish();
  int calls() const { return calls_; }

 private:
  AnswerDelta Checked(AnswerDelta delta);

  AnswerParser parser_;
  ToolStyle style_;
  bool parallel_;
  int calls_ = 0;
};

/// All of an answer.
AnswerMessage ReadMessage(MessageReader reader, std::string_view text);
AnswerMessage ReadMessage(const GenerateCall& call, const GeneratedAnswer& answer);
/// The text of an answer, with the stop string where the call asks for that.
std::string TextOf(const GenerateCall& call, const GeneratedAnswer& answer);
/// OpenAI's word for why an answer ended that has so many calls.
std::string_view FinishName(const GeneratedAnswer& answer, int calls);
/// A member of our own, "ended_by", where no API has a word for what ended an answer: each says in
/// its words that the answer is not whole, and clients that know no other words take it.
void WriteEndedBy(JsonWriter& out, const GeneratedAnswer& answer);
/// `prefix` and random letters and digits.
std::string RandomId(std::string_view prefix, int length = 24);

}  // namespace oort::openai
