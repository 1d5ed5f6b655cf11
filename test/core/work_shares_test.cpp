// SPDX-License-Identifier: MIT
#include "core/work_shares.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace oort {
namespace {

TEST(WorkShares, OneThreadTakesSmallerAndSmallerPortionsOfItsShare) {
  WorkShares shares(100, 1, 1);
  int64_t next = 0, size = 100;
  for (WorkShares::Portion p = shares.Take(0); !p.empty(); p = shares.Take(0)) {
    EXPECT_EQ(p.begin, next);
    EXPECT_LE(p.end - p.begin, size);
    next = p.end;
    size = p.end - p.begin;
  }
  EXPECT_EQ(next, 100);
  EXPECT_EQ(size, 1);
}

TEST(WorkShares, EachBeginsWithItsOwn) {
  WorkShares shares(10, 3, 1);  // 4, 3 and 3
  EXPECT_EQ(shares.Take(2).begin, 7);
  EXPECT_EQ(shares.Take(0).begin, 0);
  EXPECT_EQ(shares.Take(1).begin, 4);
}

TEST(WorkShares, WhoIsDoneTakesHalfOfTheLargestRest) {
  WorkShares shares(64, 2, 1);
  EXPECT_EQ(shares.Take(0).end, 16);  // [16, 32) is left
  for (int64_t begin = 32; begin < 64;) begin = shares.Take(1).end;
  const WorkShares::Portion theirs = shares.Take(1);
  EXPECT_EQ(theirs.begin, 24);
  EXPECT_EQ(theirs.end, 28) << "again half of what it took over";
  EXPECT_EQ(shares.Take(0).begin, 16);
}

TEST(WorkShares, PortionsAreOfWholeUnits) {
  for (int64_t count : {1, 6, 7, 8, 100}) {
    for (int shares : {1, 2, 5}) {
      WorkShares all(count, shares, 7);
      int64_t taken = 0;
      for (WorkShares::Portion p = all.Take(0); !p.empty(); p = all.Take(0)) {
        EXPECT_EQ(p.begin % 7, 0);
        EXPECT_TRUE(p.end % 7 == 0 || p.end == count) << p.end;
        taken += p.end - p.begin;
      }
      EXPECT_EQ(taken, count) << shares << " shares";
    }
  }
}

TEST(WorkShares, CountBeyondWhatAShareCanSay) {
  constexpr int64_t kCount = (int64_t{1} << 40) + 3;
  WorkShares shares(kCount, 2, 1);
  int64_t taken = 0;
  for (int turn = 0;; turn ^= 1) {
    const WorkShares::Portion p = shares.Take(turn);
    if (p.empty()) break;
    ASSERT_LT(p.begin, p.end);
    ASSERT_LE(p.end, kCount);
    taken += p.end - p.begin;
  }
  EXPECT_EQ(taken, kCount);
}

TEST(WorkShares, ThreadsThatTakeFromEachOtherGetEveryItemOnce) {
  constexpr int kThreads = 4;
  for (int64_t count : {3, 64, 5000}) {
    for (int round = 0; round < 50; ++round) {
      WorkShares shares(count, kThreads, 1);
      std::vector<std::atomic<int>> seen(static_cast<size_t>(count));
      std::vector<std::thread> threads;
      for (int mine = 0; mine < kThreads; ++mine) {
        threads.emplace_back([&, mine] {
          for (WorkShares::Portion p = shares.Take(mine); !p.empty(); p = shares.Take(mine)) {
            for (int64_t i = p.begin; i < p.end; ++i) ++seen[static_cast<size_t>(i)];
          }
        });
      }
      for (std::thread& thread : threads) thread.join();
      ASSERT_TRUE(std::all_of(seen.begin(), seen.end(), [](const auto& n) { return n == 1; }));
    }
  }
}

}  // namespace
}  // namespace oort
