// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

namespace oort {

/// Bytes of a text, from `begin` to before `end`.
struct TextRange {
  size_t begin = 0, end = 0;
  bool operator==(const TextRange&) const = default;
};

}  // namespace oort
