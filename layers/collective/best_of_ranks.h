// SPDX-License-Identifier: MIT
// What is the best that any of the ranks has.
#pragma once

#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "collectives/collective.h"

namespace oort {

/// Each of `values` becomes the best of all ranks; is_better(one, other) says whether one of a
/// higher rank is better than what those before it have.
template <typename T, typename IsBetter>
void TakeBestOfRanks(Collective& group, std::string_view what, std::span<T> values,
                     const IsBetter& is_better) {
  static_assert(std::is_trivially_copyable_v<T>);
  const std::vector<size_t> sizes(static_cast<size_t>(group.ranks()), values.size_bytes());
  const std::vector<T> mine(values.begin(), values.end());
  group.Exchange(what, std::as_bytes(std::span<const T>(mine)), sizes,
                 [&](int rank, std::span<const std::byte> handed) {
                   for (size_t i = 0; i < values.size(); ++i) {
                     T one;
                     std::memcpy(&one, handed.data() + i * sizeof(T), sizeof(T));
                     if (rank == 0 || is_better(one, values[i])) values[i] = one;
                   }
                 });
}

}  // namespace oort
