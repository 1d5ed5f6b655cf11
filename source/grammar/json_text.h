// SPDX-License-Identifier: MIT
// The parts of JSON as rules.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "grammar/rules.h"

namespace oort::grammar {

/// These characters as they stand in a JSON string: some of them escaped.
ExprId JsonCharacters(Rules& rules, const text::Ranges& ranges);

/// A bound of a number, and whether the number may be equal to it.
struct NumberBound {
  double value = 0;
  bool exclusive = false;
};
struct NumberRange {
  std::optional<NumberBound> low, high;
};
/// Whole numbers of a range. Throws kUnsupported for bounds beyond 10^15.
ExprId JsonIntegers(Rules& rules, const NumberRange& range, const std::string& what);
/// Numbers of a range; with a bound they are written without an exponent.
ExprId JsonNumbers(Rules& rules, const NumberRange& range, const std::string& what);

/// Rules that schemas share, made when they are first asked for.
class JsonText {
 public:
  explicit JsonText(Rules& rules) : rules_(rules) {}

  /// Nothing, a space, or a new line with some indentation: an answer of space alone would never
  /// end.
  ExprId Space();
  /// One character of a string, however it is spelled.
  ExprId Character();
  ExprId String();
  /// A string of min to max characters.
  ExprId String(uint32_t min, uint32_t max);
  ExprId Value();
  ExprId Object();
  ExprId Array();
  /// "{", members with commas between them, "}", and the space that may be there.
  ExprId ObjectOf(std::vector<ExprId> members, std::vector<bool> optional, ExprId rest,
                  uint32_t min, uint32_t max);
  ExprId ArrayOf(std::vector<ExprId> items, ExprId rest, uint32_t min, uint32_t max);
  /// A member whose key is this expression, in quotes already.
  ExprId Member(ExprId key, ExprId value);
  /// A key that is none of these, spelled without escapes.
  ExprId KeyOtherThan(std::vector<std::string> names);

 private:
  ExprId Listed(const char* open, ExprId members, const char* close);
  ExprId Comma();

  Rules& rules_;
  RuleId space_ = -1, string_ = -1, value_ = -1, object_ = -1, array_ = -1;
  ExprId character_ = -1;
};

}  // namespace oort::grammar
