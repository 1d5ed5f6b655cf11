// SPDX-License-Identifier: MIT
// Calls of tools in answers: how models write them, and reasoning before the answer itself.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "oort/grammar.h"
#include "oort/tokenizer.h"

namespace oort {

/// How a model was taught to write calls.
enum class ToolStyle : unsigned char {
  kNone,     ///< not at all, or in no way that is known here: calls are plain text
  kHermes,   ///< <tool_call>{"name": …, "arguments": {…}}</tool_call>: Hermes, Qwen
  kLlama3,   ///< {"name": …, "parameters": {…}} as the whole answer
  kMistral,  ///< [TOOL_CALLS][{"name": …, "arguments": {…}}, …]
  kHarmony,  ///< <|channel|>commentary to=functions.NAME<|message|>{…}<|call|>: gpt-oss
};
/// By what the source of a chat template says.
ToolStyle ToolStyleOf(std::string_view chat_template);
std::string_view Name(ToolStyle style);

/// A part of a call, in the order in which they come.
struct ToolCallDelta {
  int index = 0;          ///< of the call, from 0
  std::string id;         ///< where the model gave one before the name; comes with that
  std::string name;       ///< in the first part of a call, and in no other
  std::string arguments;  ///< a piece of the JSON of its arguments
};

/// What a piece of an answer's text turned out to be.
struct AnswerDelta {
  std::string content, reasoning;
  std::vector<ToolCallDelta> calls;
};

struct AnswerParserOptions {
  ToolStyle tools = ToolStyle::kNone;
  bool reasoning = false;            ///< <think>…</think> before the answer is reasoning
  bool begins_in_reasoning = false;  ///< the prompt ended with <think>
  /// The answer is messages of channels, <|channel|>NAME<|message|>…<|end|>, as gpt-oss writes
  /// them: analysis is reasoning, final is content, and so is commentary that calls nothing. Calls
  /// are found where `tools` is kHarmony. Wants GenerateRequest::special_text.
  bool harmony = false;
};
/// Whether a chat template has the channels of harmony.
bool IsHarmony(std::string_view chat_template);

/// Takes an answer apart while it comes: joined, the parts do not depend on how it was cut. What
/// looks like a call and is none is content. Thread contract: one thread at a time.
class AnswerParser {
 public:
  explicit AnswerParser(const AnswerParserOptions& options);
  ~AnswerParser();
  AnswerParser(AnswerParser&&) noexcept;
  AnswerParser& operator=(AnswerParser&&) noexcept;

  AnswerDelta Push(std::string_view text);
  /// What was held back.
  AnswerDelta Finish();
  int calls() const;  ///< so many have begun

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Holds an answer to calls of these tools: `tools` is the JSON of an OpenAI request, a list of
/// {"type": "function", "function": {"name", "parameters"}}. `name`: only calls of this one; empty:
/// of any. `parallel`: one call or more, else one. Throws as GrammarCompiler::Compile does, and
/// kUnsupported for ToolStyle::kNone.
GrammarSpec ToolCallGrammar(ToolStyle style, std::string_view tools, std::string_view name,
                            bool parallel);
/// Lets an answer say what it likes, in the parts that AnswerParser finds with `parts`. A call that
/// it begins is one of these tools, and the arguments of those that `strict` names keep to their
/// schemas. Throws as ToolCallGrammar does.
GrammarSpec StrictToolGrammar(const AnswerParserOptions& parts, std::string_view tools,
                              std::span<const std::string> strict, bool parallel);
/// Special tokens that calls begin with, for GrammarCompiler::Compile.
std::vector<int32_t> ToolCallPrefix(ToolStyle style, const Tokenizer& tokenizer);

}  // namespace oort
