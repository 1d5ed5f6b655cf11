// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "random.h"

namespace oort::fuzz {

/// Operator types on a ring of their hashes: who adds a type changes few of the choices of others.
class TypeRing {
 public:
  /// The list must not be empty.
  explicit TypeRing(const std::vector<std::string>& types) {
    for (const std::string& type : types) ring_.emplace_back(Hash(type), type);
    std::sort(ring_.begin(), ring_.end());
  }
  const std::string& Pick(Random& random) const {
    const auto next = std::lower_bound(ring_.begin(), ring_.end(),
                                       std::pair<uint64_t, std::string>(random.Next(), ""));
    return next == ring_.end() ? ring_.front().second : next->second;
  }

 private:
  std::vector<std::pair<uint64_t, std::string>> ring_;
};

}  // namespace oort::fuzz
