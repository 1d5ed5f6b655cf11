// SPDX-License-Identifier: MIT
#include "core/similar.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace oort {

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

std::vector<std::string> NearestNames(std::string_view word,
                                      std::span<const std::string_view> names, size_t most) {
  constexpr size_t kLongestWord = 100;
  std::vector<std::pair<size_t, std::string_view>> ranked;
  if (word.size() > kLongestWord) return {};
  for (std::string_view name : names) {
    const size_t distance = EditDistance(word, name);
    if (distance <= std::max<size_t>(1, word.size() / 3)) ranked.emplace_back(distance, name);
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<std::string> nearest;
  for (size_t i = 0; i < ranked.size() && i < most; ++i) nearest.emplace_back(ranked[i].second);
  return nearest;
}

}  // namespace oort
