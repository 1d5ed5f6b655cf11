// SPDX-License-Identifier: MIT
// What a compiled regular expression is made of; shared by compiler and matcher.
#pragma once

#include "text/regex.h"

namespace oort::text {

enum class Regex::Op : uint8_t {
  kSet,     ///< one character of set a
  kText,    ///< b bytes of the literals from a
  kLoop,    ///< characters of set a, min to max of them; flag: gives none back
  kSplit,   ///< goes on at a, later perhaps at b
  kJump,    ///< goes on at a
  kMark,    ///< remembers the place in slot a
  kMoved,   ///< goes on at b where the place is still that of slot a: an empty turn ends a loop
  kAtomic,  ///< the part from here to b, once
  kAhead,   ///< the part from here to b matches; flag: it does not
  kBehind,  ///< the same for min to max characters before this place
  kAccept,
  kLineBegin,
  kLineEnd,
  kTextBegin,
  kTextEnd,
  kTextEndOrNewline,
  kWordBoundary,  ///< flag: \B
};

}  // namespace oort::text
