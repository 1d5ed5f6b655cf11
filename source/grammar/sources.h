// SPDX-License-Identifier: MIT
// Readers of the texts that say what an answer may be. Each throws kInvalidArgument for what is
// wrong, kUnsupported for what is right but cannot be held to, and kLimit.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "grammar/rules.h"

namespace oort::grammar {

/// llama.cpp's notation.
Rules ReadGbnf(std::string_view text);
/// All of the answer matches the regular expression.
Rules ReadRegex(std::string_view pattern);
/// One of these texts.
Rules ReadChoices(std::span<const std::string> choices);
/// A JSON object, whatever it holds.
Rules AnyJsonObject();
/// JSON that a JSON Schema describes.
Rules ReadJsonSchema(std::string_view schema);

/// Calls of tools, as ToolCallGrammar says them.
Rules ReadToolCalls(std::string_view spec);

/// How the characters of a regular expression stand in the answer.
enum class Spelling : unsigned char { kPlain, kJsonString };
/// The texts that match; `anchored`: as a whole, else anything may stand around a match where the
/// pattern has no ^ or $. `what` names the pattern in messages.
ExprId RegexExpr(Rules& rules, std::string_view pattern, Spelling spelling, bool anchored,
                 const std::string& what);

}  // namespace oort::grammar
