// SPDX-License-Identifier: MIT
// "tools" and "tool_choice" of a chat: what the model may call, and what it must.
#pragma once

#include <string>
#include <vector>

#include "openai/common_fields.h"

namespace oort::openai {

/// What a request says about tools.
struct ToolFields {
  std::string tools;  ///< JSON, as templates and grammars take it; empty: none may be called
  enum class Choice : unsigned char { kAuto, kRequired, kNamed } choice = Choice::kAuto;
  std::string name;                 ///< kNamed: of the one that must be called
  std::vector<std::string> strict;  ///< names of those whose calls keep to their schemas
  bool parallel = true;
};

/// Reads the fields, and refuses what is wrong in them.
ToolFields ReadTools(Fields& fields, const Limits& limits);

/// Has answers to `request` call tools as `tools` says, and be taken apart so. Throws a
/// RequestError where the model's template knows no way to call them that an answer could be held
/// to. `has_form`: the request asks for answers of another form, too.
void ApplyTools(const ToolFields& tools, const ServedModel& served, bool has_form,
                GenerateRequest& request, GenerateCall& call);

/// Holds calls of answers that need not call anything to the schemas of strict tools. Behind
/// ApplyTools and FindReasoning, which say what parts such answers have.
void HoldStrictCalls(const ToolFields& tools, const ServedModel& served, GenerateRequest& request,
                     const GenerateCall& call);

/// Refuses the field `param` of a request to another API, which became the variable
/// "enable_thinking" of `chat`, where the model's template knows no such thing and the answer would
/// not be what the field asks for.
void CheckThinking(const Json& chat, const ServedModel& served, const std::string& param);

/// Whether the model's chat template asks how much effort its reasoning is worth.
bool KnowsEffort(const ServedModel& served);

}  // namespace oort::openai
