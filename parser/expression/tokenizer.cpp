// SPDX-License-Identifier: MIT
#include "parser/expression/tokenizer.h"

#include <limits>

#include "core/number_text.h"

namespace oort::expression {
namespace {

constexpr std::string_view kSeparators = "()[], \t\r\n";

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

/// Whether `word` must be a number: it starts with a digit, after a sign or a point if any.
bool LooksNumeric(std::string_view word) {
  size_t i = 0;
  if (word[i] == '-' || word[i] == '+') ++i;
  if (i < word.size() && word[i] == '.') ++i;
  return i < word.size() && IsDigit(word[i]);
}

void ReadOperand(Token& token) {
  const std::string_view digits = token.text.substr(1);
  const auto index =
      digits.empty() || !IsDigit(digits[0]) ? std::optional<int64_t>() : ParseInt(digits);
  if (!index || *index >= std::numeric_limits<int>::max()) {
    ThrowAt(token.column, "expected an operand such as @0, got " + Quoted(token.text));
  }
  token.kind = Token::kOperand;
  token.operand = static_cast<int>(*index);
}

void ReadWord(Token& token) {
  const std::string_view word = token.text;
  token.kind = Token::kLiteral;
  if (word == "True" || word == "False") {
    token.literal = Value(word == "True");
  } else if (word == "None") {
    token.literal = Value();
  } else if (const auto integer = ParseInt(word)) {
    token.literal = Value(*integer);
  } else if (const auto real = ParseFloat(word)) {
    token.literal = Value(*real);
  } else if (const auto complex = ParseComplex(word)) {
    token.literal = Value(*complex);
  } else if (LooksNumeric(word)) {
    ThrowAt(token.column, Quoted(word) + " is not a number");
  } else {
    token.kind = Token::kWord;
  }
}

}  // namespace

void ThrowAt(int column, const std::string& message) {
  throw Error(ErrorCode::kInvalidModel, "column " + std::to_string(column) + ": " + message);
}

std::string Quoted(std::string_view text) {
  constexpr size_t kMost = 40;
  std::string quoted = "'";
  for (char c : text.substr(0, kMost)) quoted += c >= ' ' && c <= '~' ? c : '?';
  return quoted + (text.size() > kMost ? "…'" : "'");
}

std::vector<Token> Tokenize(std::string_view text) {
  if (text.size() > kMaxTextBytes) {
    throw Error(ErrorCode::kInvalidModel, "an expression of " + std::to_string(text.size()) +
                                              " bytes is over the limit of " +
                                              std::to_string(kMaxTextBytes));
  }
  std::vector<Token> tokens;
  for (size_t i = 0; i < text.size();) {
    if (text[i] == ' ' || text[i] == '\t' || text[i] == '\r' || text[i] == '\n') {
      ++i;
      continue;
    }
    Token token;
    token.column = static_cast<int>(i) + 1;
    if (tokens.size() == kMaxTokens) {
      ThrowAt(token.column, "more than " + std::to_string(kMaxTokens) + " tokens");
    }
    const size_t end = std::min(text.find_first_of(kSeparators, i), text.size());
    token.text = text.substr(i, std::max<size_t>(end - i, 1));
    switch (text[i]) {
      case '(': token.kind = Token::kOpen; break;
      case ')': token.kind = Token::kClose; break;
      case '[': token.kind = Token::kListOpen; break;
      case ']': token.kind = Token::kListClose; break;
      case ',': token.kind = Token::kComma; break;
      case '@': ReadOperand(token); break;
      default: ReadWord(token); break;
    }
    i += token.text.size();
    tokens.push_back(std::move(token));
  }
  return tokens;
}

}  // namespace oort::expression
