// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "oort/value.h"

namespace oort::expression {

/// The longest text and the most tokens that are read: far more than pnnx writes, and little
/// enough that no input is expensive.
inline constexpr size_t kMaxTextBytes = size_t{1} << 20;
inline constexpr size_t kMaxTokens = size_t{1} << 16;

struct Token {
  enum Kind : unsigned char {
    kOpen,       ///< (
    kClose,      ///< )
    kListOpen,   ///< [
    kListClose,  ///< ]
    kComma,
    kOperand,  ///< @3
    kLiteral,  ///< a number, True, False or None
    kWord,     ///< anything else: a function or a string
  };
  Kind kind = kWord;
  int column = 1;         ///< in bytes, from 1
  std::string_view text;  ///< part of the text that was tokenized
  int operand = 0;        ///< for kOperand
  Value literal;          ///< for kLiteral
};

/// Throws kInvalidModel, with the column, for a malformed number or operand.
std::vector<Token> Tokenize(std::string_view text);

/// "column 12: message" as the error of an expression.
[[noreturn]] void ThrowAt(int column, const std::string& message);

/// 'text' in quotes for a message: shortened, and with anything unprintable replaced.
std::string Quoted(std::string_view text);

}  // namespace oort::expression
