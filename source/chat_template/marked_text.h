// SPDX-License-Identifier: MIT
// Text that knows which of its bytes a request brought. A template's own "<|im_end|>" is a control
// token; the same characters in a message are what somebody wrote.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "oort/text_range.h"

namespace oort::jinja {

using Ranges = std::vector<TextRange>;

struct MarkedText {
  std::string text;
  Ranges user;  ///< bytes from a request: in order, and none touches the next

  /// More text, all of it from a request or nothing of it.
  void Append(std::string_view more, bool is_user) {
    const TextRange all{0, more.size()};
    Append(more, is_user ? std::span<const TextRange>(&all, 1) : std::span<const TextRange>());
  }
  /// More text, of which these ranges came from a request.
  void Append(std::string_view more, std::span<const TextRange> ranges);
};

/// What of `ranges` lies in `part`, counted from its beginning.
Ranges RangesIn(std::span<const TextRange> ranges, TextRange part);

}  // namespace oort::jinja
