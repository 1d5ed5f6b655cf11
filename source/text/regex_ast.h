// SPDX-License-Identifier: MIT
// The tree between the text of a regular expression and its program.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "text/unicode.h"

namespace oort::text {

struct RegexNode {
  enum class Kind : unsigned char {
    kEmpty,
    kSet,          ///< one character of `ranges`
    kSequence,     ///< `children` one after the other
    kAlternation,  ///< the first of `children` that leads to a match
    kRepeat,       ///< the child, min to max times
    kAtomic,       ///< the child, and no way back into it
    kLook,         ///< the child matches here, or behind; `negated`: it does not
    kLineBegin,
    kLineEnd,
    kTextBegin,
    kTextEnd,
    kTextEndOrNewline,  ///< \Z
    kWordBoundary,      ///< `negated`: \B
  };
  enum class Mode : unsigned char { kGreedy, kLazy, kPossessive };
  static constexpr uint32_t kUnbounded = static_cast<uint32_t>(-1);

  Kind kind = Kind::kEmpty;
  std::vector<std::unique_ptr<RegexNode>> children;
  Ranges ranges;
  uint32_t min = 0, max = 0;
  Mode mode = Mode::kGreedy;
  bool negated = false;
  bool behind = false;
};

/// ECMAScript's differs in what the field's other notations have in common with it: \d and \w are
/// ASCII's, `[` and `&&` in brackets are characters, and `?` behind braces is lazy.
enum class RegexDialect : unsigned char { kRuby, kEcma };
std::unique_ptr<RegexNode> ParseRegex(std::string_view pattern,
                                      RegexDialect dialect = RegexDialect::kRuby);

}  // namespace oort::text
