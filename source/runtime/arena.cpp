// SPDX-License-Identifier: MIT
#include "runtime/arena.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>

#include "core/checked.h"

namespace oort {
namespace {

constexpr size_t kAlignment = 64;

struct Placed {
  size_t begin, end;
  int first, last;
};

/// `placed` is sorted by begin; `size` is aligned.
size_t TightestGap(const std::vector<Placed>& placed, const ArenaRequest& request, size_t size) {
  size_t best = SIZE_MAX, best_gap = SIZE_MAX, free_from = 0;
  for (const Placed& other : placed) {
    if (other.last < request.first || other.first > request.last) continue;
    if (other.begin > free_from) {
      const size_t gap = other.begin - free_from;
      if (gap >= size && gap < best_gap) {
        best = free_from;
        best_gap = gap;
      }
    }
    free_from = std::max(free_from, other.end);
  }
  return best == SIZE_MAX ? free_from : best;
}

}  // namespace

ArenaLayout PlaceInArena(const std::vector<ArenaRequest>& requests) {
  std::vector<size_t> order(requests.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return requests[a].size > requests[b].size; });
  ArenaLayout layout;
  layout.offsets.resize(requests.size());
  std::vector<Placed> placed;
  placed.reserve(requests.size());
  for (size_t index : order) {
    const ArenaRequest& request = requests[index];
    const size_t size = CheckedAdd(request.size, kAlignment - 1) / kAlignment * kAlignment;
    if (size == 0) continue;
    const size_t begin = TightestGap(placed, request, size);
    const Placed block{begin, CheckedAdd(begin, size), request.first, request.last};
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), block,
                         [](const Placed& a, const Placed& b) { return a.begin < b.begin; }),
        block);
    layout.offsets[index] = begin;
    layout.size = std::max(layout.size, block.end);
  }
  return layout;
}

size_t MostAtOnce(const std::vector<ArenaRequest>& requests) {
  // What begins at a step counts there; what ends at one counts no more behind it.
  std::map<int64_t, int64_t> changes;
  for (const ArenaRequest& request : requests) {
    changes[request.first] += static_cast<int64_t>(request.size);
    changes[int64_t{request.last} + 1] -= static_cast<int64_t>(request.size);
  }
  int64_t now = 0, most = 0;
  for (const auto& [step, change] : changes) most = std::max(most, now += change);
  return static_cast<size_t>(most);
}

}  // namespace oort
