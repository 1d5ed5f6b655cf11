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

size_t Aligned(size_t size) { return CheckedAdd(size, kAlignment - 1) / kAlignment * kAlignment; }

ArenaLayout PlaceInOrder(const std::vector<ArenaRequest>& requests,
                         const std::vector<size_t>& order) {
  ArenaLayout layout;
  layout.offsets.resize(requests.size());
  std::vector<Placed> placed;
  placed.reserve(requests.size());
  for (size_t index : order) {
    const ArenaRequest& request = requests[index];
    if (request.size == 0) continue;
    const size_t begin = TightestGap(placed, request, request.size);
    const Placed block{begin, CheckedAdd(begin, request.size), request.first, request.last};
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), block,
                         [](const Placed& a, const Placed& b) { return a.begin < b.begin; }),
        block);
    layout.offsets[index] = begin;
    layout.size = std::max(layout.size, block.end);
  }
  return layout;
}

double Steps(const ArenaRequest& request) {
  return static_cast<double>(request.last) - static_cast<double>(request.first) + 1;
}

/// Which of two requests is placed first: no rule is best for all graphs.
using Before = bool (*)(const ArenaRequest& a, const ArenaRequest& b);
constexpr Before kRules[] = {
    [](const ArenaRequest& a, const ArenaRequest& b) { return a.size > b.size; },
    [](const ArenaRequest& a, const ArenaRequest& b) {
      return a.size != b.size ? a.size > b.size : Steps(a) > Steps(b);
    },
    [](const ArenaRequest& a, const ArenaRequest& b) {
      return static_cast<double>(a.size) * Steps(a) > static_cast<double>(b.size) * Steps(b);
    },
    [](const ArenaRequest& a, const ArenaRequest& b) {
      return a.first != b.first ? a.first < b.first : a.size > b.size;
    },
    [](const ArenaRequest& a, const ArenaRequest& b) {
      return a.last != b.last ? a.last > b.last : a.size > b.size;
    },
};

}  // namespace

ArenaLayout PlaceInArena(const std::vector<ArenaRequest>& requests) {
  std::vector<ArenaRequest> aligned = requests;
  for (ArenaRequest& request : aligned) request.size = Aligned(request.size);
  const size_t bound = MostAtOnce(aligned);
  std::vector<size_t> order(requests.size());
  ArenaLayout best;
  for (const Before before : kRules) {
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return before(aligned[a], aligned[b]); });
    ArenaLayout layout = PlaceInOrder(aligned, order);
    if (before == kRules[0] || layout.size < best.size) best = std::move(layout);
    if (best.size <= bound) break;
  }
  return best;
}

size_t MostAtOnce(const std::vector<ArenaRequest>& requests) {
  struct Change {
    size_t ended = 0, begun = 0;
  };
  std::map<int64_t, Change> changes;  // by step
  for (const ArenaRequest& request : requests) {
    size_t& begun = changes[request.first].begun;
    begun = CheckedAdd(begun, request.size);
    size_t& ended = changes[int64_t{request.last} + 1].ended;
    ended = CheckedAdd(ended, request.size);
  }
  size_t now = 0, most = 0;
  for (const auto& [step, change] : changes) {
    now = CheckedAdd(now - change.ended, change.begun);
    most = std::max(most, now);
  }
  return most;
}

}  // namespace oort
