// SPDX-License-Identifier: MIT
// What answers to a chat consist of beside their text, reasoning and calls of tools, as the model's
// chat template has them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "oort/engine.h"
#include "oort/tool_calls.h"
#include "text/json.h"

namespace oort::openai {

/// The template that a conversation is written by, with tools or without.
std::string_view ChatTemplateOf(const LanguageModel& model, bool tools);

/// How answers call tools: as the template has it, or as TellOfTools says where it knows none.
ToolStyle CallStyleOf(const LanguageModel& model);

/// Has reasoning in answers told apart, where the model's template knows it; `parts.tools` is set
/// already. The prompt decides whether the answer begins in the middle of it.
void FindReasoning(const LanguageModel& model, const std::vector<int32_t>& prompt,
                   AnswerParserOptions& parts);

/// The same for a model that answers in channels (harmony): they are told apart where reasoning is
/// to be (`splits`), or tools may be called. An answer that is held to a form has no channels: the
/// prompt then ends with the header of the final one.
void FindChannels(const LanguageModel& model, bool splits, std::vector<int32_t>& prompt,
                  GenerateRequest& request, AnswerParserOptions& parts);

/// What a program says about tools: none in `tools` are none, and `choice` is "" or "auto", "none",
/// "required" (some call), or the name of the one to call.
struct ToolUse {
  std::string tools;  ///< JSON, as requests to OpenAI have it
  std::string choice;
  bool parallel = true;  ///< an answer may call more than once

  bool may_call() const { return !tools.empty() && choice != "none"; }
  bool must_call() const { return may_call() && !choice.empty() && choice != "auto"; }
};

/// Throws kInvalidArgument where tools are no list of functions with names, or `choice` is none.
void CheckToolUse(const ToolUse& use);

/// The grammar of answers that must call; compile it with ToolCallPrefix(CallStyleOf(model), …).
/// None where they need not. Throws as ToolCallGrammar does.
std::optional<GrammarSpec> MustCallGrammar(const LanguageModel& model, const ToolUse& use);

/// Sets what the request of a chat needs so that its answers can be taken apart, and says how. The
/// request has its prompt and constraint already; one that is held to a form of its own calls
/// nothing.
AnswerParserOptions TakeApart(const LanguageModel& model, const ToolUse& use,
                              GenerateRequest& request);

/// Makes arguments that are a text of JSON an object, as templates want them; one that was cut off,
/// or is nested too deeply, stays text. `function`: {"name": …, "arguments": …}
void ParseArguments(json::OrderedJson& function);

/// Gives the template tools, and calls of before as it wants them; where it knows none, they become
/// messages, as TellOfTools has them. Throws kInvalidArgument where messages that call are not as
/// OpenAI has them.
void PutTools(const LanguageModel& model, const ToolUse& use, ChatInputs& inputs);

}  // namespace oort::openai
