// SPDX-License-Identifier: MIT
#include "core/own_threads.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

namespace oort {
namespace {

/// How often each part ran, in regions of these sizes one behind the other.
std::vector<int> CountRuns(OwnThreads& threads, const std::vector<int>& sizes, int most) {
  std::vector<std::atomic<int>> counts(static_cast<size_t>(most));
  for (const int size : sizes) {
    threads.Run(size, [&](int part) { ++counts[static_cast<size_t>(part)]; });
  }
  return {counts.begin(), counts.end()};
}

TEST(OwnThreads, EveryPartRunsOnceInEachRegion) {
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

/// Parts that wait for each other, so that each has a thread of its own in the end.
TEST(OwnThreads, PartsRunAtTheSameTime) {
  constexpr int kParts = 3;
  OwnThreads threads;
  for (int round = 0; round < 20; ++round) {
    // Asleep every other time.
    if (round % 2 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::atomic<int> inside = 0, together = 0;
    threads.Run(kParts, [&](int) {
      ++inside;
      const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(1);
      while (inside < 2 && std::chrono::steady_clock::now() < patience) std::this_thread::yield();
      if (inside >= 2) ++together;
    });
    EXPECT_EQ(together.load(), kParts) << "nobody came to the caller's help";
  }
}

TEST(OwnThreads, ARegionInsideOneStaysOnItsThread) {
  std::atomic<int> inner = 0, elsewhere = 0;
  EXPECT_FALSE(OwnThreads::InRegion());
  OwnThreads::RunMine(3, [&](int) {
    EXPECT_TRUE(OwnThreads::InRegion());
    const auto self = std::this_thread::get_id();
    OwnThreads::RunMine(4, [&](int) {
      if (std::this_thread::get_id() != self) ++elsewhere;
      ++inner;
    });
  });
  EXPECT_EQ(inner.load(), 3 * 4);
  EXPECT_EQ(elsewhere.load(), 0);
  EXPECT_FALSE(OwnThreads::InRegion());
}

TEST(OwnThreads, CallersHaveThreadsOfTheirOwn) {
  std::vector<std::thread> callers;
  std::atomic<int> sum = 0;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      for (int i = 0; i < 200; ++i) OwnThreads::RunMine(2, [&](int) { ++sum; });
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(sum.load(), 4 * 200 * 2);
}

TEST(OwnThreads, TellWhetherTheyAreAwake) {
  OwnThreads threads;
  EXPECT_FALSE(threads.AreAwake(2)) << "there are none";
  threads.Run(2, [](int) {});
  EXPECT_FALSE(threads.AreAwake(3)) << "there is one only";
  for (int i = 0; i < 10000 && threads.AreAwake(2); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_FALSE(threads.AreAwake(2)) << "they never sleep";
}

TEST(OwnThreads, AChildOfAForkStartsItsOwn) {
  OwnThreads::RunMine(3, [](int) {});
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::atomic<int> count = 0;
    OwnThreads::RunMine(3, [&](int) { ++count; });
    _exit(count.load() == 3 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/// Runs loops when the threads of the main thread have been ended already.
struct RunsAtExit {
  ~RunsAtExit() {
    int parts = 0;
    OwnThreads::RunMine(3, [&](int) { ++parts; });
    _exit(parts == 3 ? 7 : 1);
  }
};

TEST(OwnThreadsDeathTest, EndWithTheProcess) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        OwnThreads::RunMine(3, [](int) {});
        std::exit(5);
      },
      ::testing::ExitedWithCode(5), "");
  EXPECT_EXIT(
      {
        static const RunsAtExit last;
        OwnThreads::RunMine(3, [](int) {});
        std::exit(5);
      },
      ::testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace oort
