// SPDX-License-Identifier: MIT
#include "chat_template/marked_text.h"

#include <algorithm>

namespace oort::jinja {

void MarkedText::Append(std::string_view more, std::span<const TextRange> ranges) {
  const size_t offset = text.size();
  for (const TextRange& range : ranges) {
    if (range.begin == range.end) continue;
    if (!user.empty() && user.back().end == offset + range.begin) {
      user.back().end = offset + range.end;
    } else {
      user.push_back({offset + range.begin, offset + range.end});
    }
  }
  text += more;
}

Ranges RangesIn(std::span<const TextRange> ranges, TextRange part) {
  Ranges inside;
  auto at = std::ranges::partition_point(
      ranges, [&](const TextRange& range) { return range.end <= part.begin; });
  for (; at != ranges.end() && at->begin < part.end; ++at) {
    inside.push_back(
        {std::max(at->begin, part.begin) - part.begin, std::min(at->end, part.end) - part.begin});
  }
  return inside;
}

}  // namespace oort::jinja
