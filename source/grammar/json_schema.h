// SPDX-License-Identifier: MIT
// Schemas as values, before they become rules.
#pragma once

#include <string>
#include <string_view>

#include "grammar/json_text.h"
#include "grammar/rules.h"
#include "text/json.h"

namespace oort::grammar {

/// Keeps the order of members: answers have them in that of the schema.
using OrderedJson = json::OrderedJson;

/// Throws kInvalidArgument for what is no JSON, has a key twice or is nested too deeply.
OrderedJson ParseOrdered(std::string_view text, const std::string& what);

/// The rule of what a schema describes.
RuleId AddJsonSchema(Rules& rules, JsonText& json, const OrderedJson& schema);

/// Whether a keyword says nothing about which answers are right.
bool IsAnnotation(std::string_view keyword);

/// What matches both of two schemas. Throws kUnsupported, with `path`, where their keywords cannot
/// be joined into one schema.
OrderedJson MergedSchema(const OrderedJson& a, const OrderedJson& b, const std::string& path);

/// Whether it is certain that nothing matches both.
bool AreDisjoint(const OrderedJson& a, const OrderedJson& b);

/// The regular expression of a string format, or empty where the format is not known.
std::string_view PatternOfFormat(std::string_view format);
/// "date-time, date, …"
std::string KnownFormats();

}  // namespace oort::grammar
