// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace oort::jinja {

enum class TokenKind : uint8_t {
  kData,
  kBlockBegin,
  kBlockEnd,
  kPrintBegin,
  kPrintEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind;
  std::string text;  ///< without quotes and escapes
  int line;
};

/// Cuts a template into tokens, with the white space rules of trim_blocks and lstrip_blocks. Throws
/// an Error with the line; the last token is kEnd.
std::vector<Token> Tokenize(std::string_view source);

/// Throws an Error that the template is wrong at a line.
[[noreturn]] void FailSyntax(int line, const std::string& message);

}  // namespace oort::jinja
