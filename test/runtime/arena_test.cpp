// SPDX-License-Identifier: MIT
#include "runtime/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace oort {
namespace {

TEST(PlaceInArena, ReusesWhatIsFree) {
  // A chain: each block lives over two steps, so two of them suffice.
  const ArenaLayout layout = PlaceInArena({{128, 0, 1}, {128, 1, 2}, {128, 2, 3}, {128, 3, 4}});
  EXPECT_EQ(layout.size, 256u);
}

TEST(PlaceInArena, AlignsAndTakesNoRoomForNothing) {
  const ArenaLayout layout = PlaceInArena({{1, 0, 5}, {65, 0, 5}, {0, 0, 5}});
  EXPECT_EQ(layout.size, 192u);
  for (size_t offset : layout.offsets) EXPECT_EQ(offset % 64, 0u);
}

TEST(PlaceInArena, NeverOverlapsWhatLivesTogether) {
  std::mt19937 bits(1);
  for (int round = 0; round < 50; ++round) {
    std::vector<ArenaRequest> requests;
    size_t total = 0;
    for (int i = 0; i < 60; ++i) {
      const int first = static_cast<int>(bits() % 40);
      requests.push_back({bits() % 5000, first, first + static_cast<int>(bits() % 10)});
      total += requests.back().size + 64;
    }
    const ArenaLayout layout = PlaceInArena(requests);
    EXPECT_LE(layout.size, total);
    size_t most_alive = 0;  // no plan can do with less
    for (int step = 0; step < 50; ++step) {
      size_t alive = 0;
      for (const ArenaRequest& r : requests)
        alive += r.first <= step && step <= r.last ? r.size : 0;
      most_alive = std::max(most_alive, alive);
    }
    EXPECT_EQ(MostAtOnce(requests), most_alive);
    EXPECT_GE(layout.size, most_alive);
    EXPECT_LE(layout.size, most_alive * 3 / 2 + 64 * 60);
    for (size_t a = 0; a < requests.size(); ++a) {
      EXPECT_LE(layout.offsets[a] + requests[a].size, layout.size);
      for (size_t b = 0; b < a; ++b) {
        const bool together =
            requests[a].first <= requests[b].last && requests[b].first <= requests[a].last;
        const bool apart = layout.offsets[a] + requests[a].size <= layout.offsets[b] ||
                           layout.offsets[b] + requests[b].size <= layout.offsets[a];
        EXPECT_TRUE(!together || apart || requests[a].size == 0 || requests[b].size == 0);
      }
    }
  }
}

}  // namespace
}  // namespace oort
