// SPDX-License-Identifier: MIT
// JSON of files that nobody vouches for: every access says what it expected.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace oort::llm {

using Json = nlohmann::json;

/// Throws kInvalidModel where `text` is no JSON; `what` names it.
Json ParseJson(std::string_view text, std::string_view what);

/// The member `name`, or null where it is missing or null.
const Json* Member(const Json& object, const char* name);
const Json& NeededMember(const Json& object, const char* name, std::string_view of);
bool BoolMember(const Json& object, const char* name, std::string_view of);
bool BoolMember(const Json& object, const char* name, std::string_view of, bool otherwise);
std::string StringMember(const Json& object, const char* name, std::string_view of);
std::optional<std::string> OptionalString(const Json& object, const char* name,
                                          std::string_view of);
/// A number from 0 to `most`.
int64_t NumberOf(const Json& value, std::string_view of, int64_t most);
int64_t NumberMember(const Json& object, const char* name, std::string_view of, int64_t most);
const Json& ArrayMember(const Json& object, const char* name, std::string_view of);
/// The "type" of a component.
std::string TypeOf(const Json& component, std::string_view of);

/// The one character of a string.
uint32_t CharacterOf(const std::string& text, std::string_view of);
std::string DecodeBase64(std::string_view text, std::string_view of);

}  // namespace oort::llm
