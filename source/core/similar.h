// SPDX-License-Identifier: MIT
// "did you mean …?"
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace oort {

/// Insertions, deletions and replacements from `a` to `b`.
size_t EditDistance(std::string_view a, std::string_view b);

/// Up to `most` of `names` that look like a slip of `word`, nearest first.
std::vector<std::string> NearestNames(std::string_view word,
                                      std::span<const std::string_view> names, size_t most);

}  // namespace oort
