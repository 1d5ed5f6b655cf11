// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <vector>

namespace oort {

/// A block of memory that is needed from step `first` to step `last`, both included.
struct ArenaRequest {
  size_t size = 0;
  int first = 0;
  int last = 0;
};

struct ArenaLayout {
  std::vector<size_t> offsets;  ///< one for each request, multiples of 64
  size_t size = 0;              ///< of the whole arena
};

/// Places blocks so that no two that are needed at the same time overlap, each at the tightest gap
/// that takes it: largest first, and in some other orders if that leaves gaps; the best counts.
ArenaLayout PlaceInArena(const std::vector<ArenaRequest>& requests);

/// Most bytes of requests that are needed at the same step: no layout is smaller.
size_t MostAtOnce(const std::vector<ArenaRequest>& requests);

}  // namespace oort
