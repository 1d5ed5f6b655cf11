// SPDX-License-Identifier: MIT
#include "grammar/call_scanner.h"

#include "text/json.h"

namespace oort::grammar {
namespace {

bool IsJsonSpace(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

/// The text of a JSON string; false where it is none.
bool ReadString(const std::string& text, std::string& out) {
  const auto value = json::Json::parse(text, nullptr, false);
  if (!value.is_string()) return false;
  out = value.get<std::string>();
  return true;
}

}  // namespace

size_t CallScanner::Read(std::string_view text) {
  size_t at = 0;
  while (at < text.size() && !complete() && !broken()) ReadByte(text[at++]);
  return at;
}

void CallScanner::ReadByte(char byte) {
  const auto expect = [&](char wanted, State next) {
    if (IsJsonSpace(byte)) return;
    state_ = byte == wanted ? next : State::kBroken;
  };
  switch (state_) {
    case State::kBegin: return expect('{', State::kBeforeKey);
    case State::kBeforeKey:
      if (byte == '}') {
        state_ = named_ ? State::kComplete : State::kBroken;
        return;
      }
      key_ = "\"";
      return expect('"', State::kKey);
    case State::kKey:
      key_ += byte;
      if (byte == '"' && !escaped_) {
        state_ = ReadString(std::string(key_), key_) ? State::kBeforeColon : State::kBroken;
      }
      escaped_ = byte == '\\' && !escaped_;
      return;
    case State::kBeforeColon: return expect(':', State::kBeforeValue);
    case State::kBeforeValue:
      if (IsJsonSpace(byte)) return;
      state_ = State::kValue;
      value_.clear();
      depth_ = 0;
      in_string_ = escaped_ = false;
      streams_ = is_arguments() && byte == '{';
      return ReadValue(byte);
    case State::kValue: return ReadValue(byte);
    case State::kBehindValue:
      if (byte == '}') {
        state_ = named_ ? State::kComplete : State::kBroken;
        return;
      }
      return expect(',', State::kBeforeKey);
    case State::kComplete:
    case State::kBroken: return;
  }
}

void CallScanner::ReadValue(char byte) {
  if (!in_string_ && depth_ == 0 && !value_.empty() &&
      (byte == ',' || byte == '}' || IsJsonSpace(byte))) {
    EndValue();  // a number or a word ends where something else begins
    if (state_ == State::kBehindValue) ReadByte(byte);
    return;
  }
  if (streams_) {
    arguments += byte;
    if (value_.empty()) value_ = "{";  // something was read; the rest is not kept
  } else {
    value_ += byte;
  }
  if (in_string_) {
    if (byte == '"' && !escaped_) in_string_ = false;
    escaped_ = byte == '\\' && !escaped_;
  } else if (byte == '"') {
    in_string_ = true;
    escaped_ = false;
  } else if (byte == '{' || byte == '[') {
    ++depth_;
  } else if (byte == '}' || byte == ']') {
    --depth_;
  }
  const bool ends = !in_string_ && depth_ == 0 && (byte == '"' || byte == '}' || byte == ']');
  if (ends) EndValue();
}

void CallScanner::EndValue() {
  state_ = State::kBehindValue;
  if (streams_) return;
  if (key_ == "name") {
    named_ = ReadString(value_, name);
    if (!named_) state_ = State::kBroken;
  } else if (key_ == "id") {
    if (!named_) ReadString(value_, id);  // it is told with the name, or not at all
  } else if (is_arguments()) {
    // Some models write the JSON of the arguments as a string.
    if (!ReadString(value_, arguments)) arguments = value_;
  }
}

}  // namespace oort::grammar
