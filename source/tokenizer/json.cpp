// SPDX-License-Identifier: MIT
#include "tokenizer/json.h"

#include "oort/error.h"
#include "text/json.h"
#include "text/utf8.h"

namespace oort::llm {
namespace {

Error JsonError(const std::string& message) { return {ErrorCode::kInvalidModel, message}; }

std::string Quoted(std::string_view name) { return "'" + std::string(name) + "'"; }

Error WrongMember(const char* name, std::string_view of, std::string_view expected,
                  const Json& got) {
  return JsonError(std::string(of) + ": expected " + std::string(expected) + " as " + Quoted(name) +
                   ", got " + got.type_name());
}

}  // namespace

Json ParseJson(std::string_view text, std::string_view what) {
  return json::Parse(text, std::string(what));
}

const Json* Member(const Json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

const Json& NeededMember(const Json& object, const char* name, std::string_view of) {
  if (const Json* member = Member(object, name)) return *member;
  throw JsonError(std::string(of) + " lacks " + Quoted(name));
}

bool BoolMember(const Json& object, const char* name, std::string_view of) {
  const Json& value = NeededMember(object, name, of);
  if (!value.is_boolean()) throw WrongMember(name, of, "true or false", value);
  return value.get<bool>();
}

bool BoolMember(const Json& object, const char* name, std::string_view of, bool otherwise) {
  return Member(object, name) == nullptr ? otherwise : BoolMember(object, name, of);
}

std::string StringMember(const Json& object, const char* name, std::string_view of) {
  const Json& value = NeededMember(object, name, of);
  if (!value.is_string()) throw WrongMember(name, of, "a string", value);
  return value.get<std::string>();
}

std::optional<std::string> OptionalString(const Json& object, const char* name,
                                          std::string_view of) {
  if (Member(object, name) == nullptr) return std::nullopt;
  return StringMember(object, name, of);
}

int64_t NumberOf(const Json& value, std::string_view of, int64_t most) {
  if (value.is_number_integer() || value.is_number_unsigned()) {
    const bool fits = value.is_number_unsigned()
                          ? value.get<uint64_t>() <= static_cast<uint64_t>(most)
                          : value.get<int64_t>() >= 0 && value.get<int64_t>() <= most;
    if (fits) return value.get<int64_t>();
  }
  throw JsonError(std::string(of) + ": expected a whole number from 0 to " + std::to_string(most) +
                  ", got " + (value.is_number() ? value.dump() : value.type_name()));
}

int64_t NumberMember(const Json& object, const char* name, std::string_view of, int64_t most) {
  return NumberOf(NeededMember(object, name, of), std::string(of) + " " + Quoted(name), most);
}

const Json& ArrayMember(const Json& object, const char* name, std::string_view of) {
  const Json& value = NeededMember(object, name, of);
  if (!value.is_array()) throw WrongMember(name, of, "a list", value);
  return value;
}

std::string TypeOf(const Json& component, std::string_view of) {
  if (!component.is_object()) {
    throw JsonError(std::string(of) + ": expected an object, got " + component.type_name());
  }
  return StringMember(component, "type", of);
}

uint32_t CharacterOf(const std::string& text, std::string_view of) {
  size_t at = 0;
  if (!text.empty()) {
    const uint32_t c = NextCodePoint(text, at);
    if (at == text.size()) return c;
  }
  throw JsonError(std::string(of) + ": expected one character, got '" + text + "'");
}

std::string DecodeBase64(std::string_view text, std::string_view of) {
  constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  uint32_t bits = 0;
  int count = 0;
  while (text.ends_with('=')) text.remove_suffix(1);
  for (const char c : text) {
    const size_t digit = kAlphabet.find(c);
    if (digit == std::string_view::npos) throw JsonError(std::string(of) + " is not base64");
    bits = bits << 6 | static_cast<uint32_t>(digit);
    count += 6;
    if (count >= 8) {
      count -= 8;
      out += static_cast<char>(bits >> count & 0xFF);
    }
  }
  return out;
}

}  // namespace oort::llm
