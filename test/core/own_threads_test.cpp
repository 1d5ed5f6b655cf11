// SPDX-License-Identifier: MIT
#include "core/own_threads.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace oort {
namespace {

/// How often each thread ran, in regions of these sizes one behind the other.
std::vector<int> CountRuns(OwnThreads& threads, const std::vector<int>& sizes, int most) {
  std::vector<std::atomic<int>> counts(static_cast<size_t>(most));
  for (const int size : sizes) {
    threads.Run(size, [&](int thread, int team) {
      EXPECT_EQ(team, size);
      ++counts[static_cast<size_t>(thread)];
    });
  }
  return {counts.begin(), counts.end()};
}

TEST(OwnThreads, EveryThreadRunsOnceInEachRegion) {
  OwnThreads threads;
  EXPECT_EQ(CountRuns(threads, {1, 4, 2, 4, 3, 1, 2}, 4), (std::vector<int>{7, 5, 3, 2}));
}

TEST(OwnThreads, ThreadsAreThereAgainBehindASleep) {
  OwnThreads threads;
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(CountRuns(threads, {3, 3}, 3), (std::vector<int>{2, 2, 2}));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

TEST(OwnThreads, ARegionInsideOneStaysOnItsThread) {
  std::atomic<int> inner = 0;
  EXPECT_FALSE(OwnThreads::InRegion());
  OwnThreads::Mine().Run(3, [&](int, int) {
    EXPECT_TRUE(OwnThreads::InRegion());
    OwnThreads::Mine().Run(4, [&](int thread, int team) {
      EXPECT_EQ(thread, 0);
      EXPECT_EQ(team, 1);
      ++inner;
    });
  });
  EXPECT_EQ(inner.load(), 3);
  EXPECT_FALSE(OwnThreads::InRegion());
}

TEST(OwnThreads, CallersHaveThreadsOfTheirOwn) {
  std::vector<std::thread> callers;
  std::atomic<int> sum = 0;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      for (int i = 0; i < 200; ++i) OwnThreads::Mine().Run(2, [&](int, int) { ++sum; });
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(sum.load(), 4 * 200 * 2);
}

TEST(OwnThreads, AChildOfAForkStartsItsOwn) {
  OwnThreads::Mine().Run(3, [](int, int) {});
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::atomic<int> count = 0;
    OwnThreads::Mine().Run(3, [&](int, int) { ++count; });
    _exit(count.load() == 3 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace oort
