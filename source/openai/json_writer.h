// SPDX-License-Identifier: MIT
// Writes JSON from left to right: an event of a stream is a few appends, not a tree.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace oort::openai {

class JsonWriter {
 public:
  JsonWriter& Open(char bracket);   ///< '{' or '['
  JsonWriter& Close(char bracket);  ///< '}' or ']'
  JsonWriter& Key(std::string_view name);
  /// Bytes that are no UTF-8 become U+FFFD; nothing in it can end a line.
  JsonWriter& String(std::string_view text);
  JsonWriter& StringOrNull(std::string_view text);  ///< null where it is empty
  JsonWriter& Integer(int64_t value);
  /// The shortest text that reads back as this number; what JSON cannot say, -9999.0.
  JsonWriter& Number(float value);
  JsonWriter& Bool(bool value) { return Raw(value ? "true" : "false"); }
  JsonWriter& Null() { return Raw("null"); }
  /// A value that is JSON already.
  JsonWriter& Raw(std::string_view json);

  std::string Take() { return std::move(text_); }

 private:
  void Separate();

  std::string text_;
};

}  // namespace oort::openai
