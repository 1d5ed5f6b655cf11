// SPDX-License-Identifier: MIT
// Which loops run on how many threads: decisions, never times.
#include "core/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <set>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "core/system_folder.h"
#include "core/thread_budget.h"
#include "oort/error.h"

namespace oort {
namespace {

TEST(ChoosePieces, OneThreadOrLittleWorkStaysWhole) {
  EXPECT_EQ(ChoosePieces(1, 1e6, true), 1);
  EXPECT_EQ(ChoosePieces(16, 0, true), 1);
  EXPECT_EQ(ChoosePieces(16, 1.9, true), 1);
  EXPECT_EQ(ChoosePieces(2, 1, true), 1);
}

TEST(ChoosePieces, ThreadsThatSleepNeedMoreWork) {
  EXPECT_EQ(ChoosePieces(2, 4, true), 2);
  EXPECT_EQ(ChoosePieces(2, 4, false), 1);
  EXPECT_EQ(ChoosePieces(2, 100, false), 2);
}

TEST(ChoosePieces, ALargeTeamIsNotWokenForCrumbs) {
  EXPECT_EQ(ChoosePieces(64, 2, true), 1);
  EXPECT_EQ(ChoosePieces(16, 1000, true), 16);
  EXPECT_EQ(ChoosePieces(16, 6, true), 6);
}

TEST(ChoosePieces, IsNeverExpectedToTakeLongerThanOneThread) {
  for (int threads : {2, 3, 4, 8, 16, 64, 256}) {
    for (bool warm : {false, true}) {
      for (double grains = 0.5; grains < 1e4; grains *= 1.3) {
        const int pieces = ChoosePieces(threads, grains, warm);
        ASSERT_GE(pieces, 1);
        ASSERT_LE(pieces, threads);
        ASSERT_LE(pieces, std::max(1.0, grains));
        if (pieces == 1) continue;
        // Even if waking the team takes ten microseconds where nobody has run for long.
        const double saved = grains * kGrainNanoseconds * (1 - 1.0 / pieces);
        ASSERT_GT(saved, warm ? 500 : 10000) << threads << " threads, " << grains << " grains";
      }
    }
  }
}

TEST(GrainOf, FollowsTheDearerOfBytesAndArithmetic) {
  EXPECT_EQ(GrainOf({.bytes = 32}), 2000);
  EXPECT_EQ(GrainOf({.flops = 16}), 2000);
  EXPECT_EQ(GrainOf({.bytes = 32, .flops = 160}), 200);
  EXPECT_EQ(GrainOf({.bytes = 1e9}), 1);
  EXPECT_GT(GrainOf({}), 1000000);
}

TEST(ParallelFor, CoversEveryItemOnce) {
  for (int threads : {1, 2, 3, 8, 33}) {
    for (int64_t count : {0, 1, 2, 7, 64, 1000}) {
      for (int64_t grain : {0, 1, 5, 2000}) {
        std::vector<std::atomic<int>> seen(static_cast<size_t>(count));
        ParallelFor(threads, count, grain, [&](int64_t begin, int64_t end) {
          ASSERT_LT(begin, end);
          for (int64_t i = begin; i < end; ++i) ++seen[static_cast<size_t>(i)];
        });
        for (const std::atomic<int>& times : seen) ASSERT_EQ(times, 1);
      }
    }
  }
}

TEST(ParallelFor, SmallLoopsStayOnTheCallersThread) {
  const std::thread::id self = std::this_thread::get_id();
  int calls = 0;
  ParallelFor(8, 1000, 1000, [&](int64_t begin, int64_t end) {
    EXPECT_EQ(std::this_thread::get_id(), self);
    EXPECT_EQ(end - begin, 1000);
    ++calls;
  });
  EXPECT_EQ(calls, 1);
}

TEST(ParallelFor, ALoopInsideALoopStaysOnItsThread) {
  std::atomic<int> wrong = 0;
  ParallelPieces(4, 4, kManyGrains, [&](int) {
    const std::thread::id self = std::this_thread::get_id();
    ParallelFor(4, 100000, 1, [&](int64_t begin, int64_t end) {
      if (std::this_thread::get_id() != self || end - begin != 100000) ++wrong;
    });
  });
  EXPECT_EQ(wrong, 0);
}

TEST(ParallelFor, RethrowsOneFailureAfterAllPieces) {
  for (int threads : {1, 4}) {
    std::atomic<int> ran = 0;
    EXPECT_THROW(ParallelPieces(threads, 4, kManyGrains,
                                [&](int piece) {
                                  ++ran;
                                  if (piece == 3) throw std::runtime_error("broken");
                                }),
                 std::runtime_error);
    EXPECT_EQ(ran, 4);
  }
}

TEST(ParallelPlaces, APlaceIsWithOneAtATime) {
  constexpr int kThreads = 3;
  for (double grains : {0.0, 4.0, 40.0, kManyGrains}) {
    std::atomic<int> inside[kThreads] = {}, wrong = 0;
    std::vector<std::atomic<int>> seen(200);
    ParallelPlaces(kThreads, 200, grains, [&](int place, int64_t begin, int64_t end) {
      if (place < 0 || place >= kThreads || ++inside[place] != 1) ++wrong;
      for (int64_t i = begin; i < end; ++i) ++seen[static_cast<size_t>(i)];
      std::this_thread::yield();
      --inside[place];
    });
    EXPECT_EQ(wrong, 0);
    for (const std::atomic<int>& times : seen) ASSERT_EQ(times, 1) << grains << " grains";
  }
}

TEST(ParallelPlaces, WhoIsDoneTakesFromOneThatIsHeldUp) {
  constexpr int64_t kItems = 64;
  std::atomic<int64_t> done = 0;
  bool helped = true;
  ParallelPlaces(2, kItems, kManyGrains, [&](int, int64_t begin, int64_t end) {
    if (begin == 0 && end < kItems) {
      // Until the other thread has done its half and half of this one's.
      const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(10);
      while (done < kItems * 3 / 4 && std::chrono::steady_clock::now() < patience) {
        std::this_thread::yield();
      }
      helped = done >= kItems * 3 / 4;
    }
    done += end - begin;
  });
  EXPECT_EQ(done, kItems);
  EXPECT_TRUE(helped) << "every thread keeps to its own share";
}

TEST(ParallelPieces, RunsEachOnceEvenOnFewerThreads) {
  for (int threads : {1, 2, 7}) {
    for (double grains : {0.0, kManyGrains}) {
      std::vector<std::atomic<int>> seen(13);
      ParallelPieces(threads, 13, grains, [&](int piece) { ++seen[static_cast<size_t>(piece)]; });
      for (const std::atomic<int>& times : seen) ASSERT_EQ(times, 1);
    }
  }
}

TEST(ThreadBudget, WhoRunsAloneIsNotLimited) {
  ThreadBudget budget(4);
  EXPECT_EQ(budget.cap(), ThreadBudget::kUnlimited);
  budget.Enter(64);
  EXPECT_EQ(budget.cap(), ThreadBudget::kUnlimited);
}

TEST(ThreadBudget, EveryoneGetsAShare) {
  ThreadBudget budget(16);
  budget.Enter(16);
  budget.Enter(16);
  EXPECT_EQ(budget.cap(), 8);
  budget.Enter(16);
  EXPECT_EQ(budget.cap(), 5);
  for (int i = 0; i < 30; ++i) budget.Enter(16);
  EXPECT_EQ(budget.cap(), 1);
}

TEST(ThreadBudget, ModestOnesLeaveTheirShareToOthers) {
  ThreadBudget budget(16);
  budget.Enter(1);
  budget.Enter(16);
  EXPECT_EQ(budget.cap(), 15);
  budget.Enter(4);
  EXPECT_EQ(budget.cap(), 11);
  ThreadBudget enough(16);
  enough.Enter(8);
  enough.Enter(8);
  EXPECT_EQ(enough.cap(), ThreadBudget::kUnlimited);
}

/// Shares of eight processors, and a clock that stands still unless it is moved.
class Shares : public ::testing::Test {
 protected:
  using Clock = ThreadShare::Clock;
  static constexpr int kAll = ThreadBudget::kUnlimited;
  static Clock::time_point Now() { return now_; }

  ThreadBudget budget_{8};
  ThreadShare mine_{budget_, &Now};
  std::optional<ThreadShare> other_{std::in_place, budget_, &Now};
  static inline Clock::time_point now_;
};

TEST_F(Shares, FallAtOnce) {
  mine_.Enter(8);
  EXPECT_EQ(mine_.Cap(), kAll);
  other_->Enter(8);
  EXPECT_EQ(mine_.Cap(), 4);
  EXPECT_EQ(other_->Cap(), 4);
}

TEST_F(Shares, DoNotChangeWhileTwoComeAndGo) {
  mine_.Enter(8);
  for (int i = 0; i < 100; ++i) {
    other_->Enter(8);
    EXPECT_EQ(mine_.Cap(), 4);
    other_->Leave(8);
    EXPECT_EQ(mine_.Cap(), 4) << "the other is between two runs";
    mine_.Leave(8);
    mine_.Enter(8);
    EXPECT_EQ(mine_.Cap(), 4) << "it was there in the last run";
  }
}

TEST_F(Shares, RiseForTheNextRunWhereTheOtherHasEnded) {
  mine_.Enter(8);
  other_->Enter(8);
  EXPECT_EQ(mine_.Cap(), 4);
  other_->Leave(8);
  mine_.Leave(8);
  other_.reset();
  mine_.Enter(8);
  EXPECT_EQ(mine_.Cap(), kAll);
}

TEST_F(Shares, RiseBehindARunThatNobodyWasBeside) {
  mine_.Enter(8);
  other_->Enter(8);
  EXPECT_EQ(mine_.Cap(), 4);
  other_->Leave(8);
  mine_.Leave(8);
  mine_.Enter(8);
  EXPECT_EQ(mine_.Cap(), 4);
  mine_.Leave(8);
  mine_.Enter(8);
  EXPECT_EQ(mine_.Cap(), kAll);
}

TEST_F(Shares, AreWholeForWhoWasNotThereBefore) {
  other_->Enter(1);
  std::optional<ThreadShare> third(std::in_place, budget_, &Now);
  third->Enter(8);
  EXPECT_EQ(third->Cap(), 7);
  other_->Leave(1);
  mine_.Enter(8);
  third->Leave(8);
  mine_.Leave(8);
  mine_.Enter(8);
  EXPECT_EQ(mine_.Cap(), 4) << "the third may be back";
  third.reset();
  mine_.Leave(8);
  mine_.Enter(8);
  EXPECT_EQ(mine_.Cap(), kAll);
}

TEST_F(Shares, RiseWithinALongRunOnceNobodyWasThereForLong) {
  mine_.Enter(8);
  other_->Enter(8);
  EXPECT_EQ(mine_.Cap(), 4);
  now_ += std::chrono::hours(1);  // both run
  EXPECT_EQ(mine_.Cap(), 4);
  other_->Leave(8);
  EXPECT_EQ(mine_.Cap(), 4);
  now_ += ThreadShare::kPatience / 2;
  other_->Enter(8);
  EXPECT_EQ(mine_.Cap(), 4);
  other_->Leave(8);
  EXPECT_EQ(mine_.Cap(), 4);
  now_ += ThreadShare::kPatience / 2;
  EXPECT_EQ(mine_.Cap(), 4) << "it was there half of the time";
  now_ += ThreadShare::kPatience / 2;
  EXPECT_EQ(mine_.Cap(), kAll);
  mine_.Leave(8);
  mine_.Enter(8);
  EXPECT_EQ(mine_.Cap(), kAll);
}

/// Where each loop ends in the middle, and how much of it was run.
TEST(StopScope, EndsLoopsEarly) {
  for (const int threads : {1, 2, 5}) {
    std::stop_source source;
    const std::stop_token token = source.get_token();
    const StopScope scope(token);
    std::atomic<int64_t> items = 0;
    const auto body = [&](int64_t begin, int64_t end) {
      items += end - begin;
      source.request_stop();
    };
    try {
      ParallelFor(threads, 100000, 1, body);
      FAIL() << "not cancelled";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kCancelled);
    }
    EXPECT_LE(items, 100000 / 64 + threads) << "the first part of each thread";
    EXPECT_THROW(ParallelPieces(threads, 2, 0, [](int) {}), Error);
  }
}

TEST(StopScope, IsSeenByEveryThreadOfATeam) {
  std::stop_source source;
  const std::stop_token token = source.get_token();
  std::atomic<int> asked = 0, wanted = 0;
  {
    const StopScope scope(token);
    EXPECT_THROW(ParallelPieces(3, 3, kManyGrains,
                                [&](int) {
                                  if (!IsCancelled()) ++wanted;
                                  source.request_stop();
                                  if (IsCancelled()) ++asked;
                                }),
                 Error);
  }
  EXPECT_GE(wanted, 1);
  EXPECT_GE(asked, wanted) << "who ran before the request saw it afterwards";
  EXPECT_FALSE(IsCancelled()) << "the scope has ended";
}

TEST(StopScope, WithoutARequestEveryItemRunsOnce) {
  std::stop_source source;
  const std::stop_token token = source.get_token();
  const StopScope scope(token);
  for (const int threads : {1, 2, 7}) {
    for (const int64_t grain : {1, 10, 1000}) {
      std::vector<std::atomic<int>> seen(10007);
      ParallelFor(threads, 10007, grain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) ++seen[static_cast<size_t>(i)];
      });
      for (const std::atomic<int>& times : seen) ASSERT_EQ(times, 1);
    }
  }
}

TEST(OmpThreads, ReadsTheFirstNumber) {
  EXPECT_EQ(ParseOmpThreads(nullptr), 0);
  EXPECT_EQ(ParseOmpThreads(""), 0);
  EXPECT_EQ(ParseOmpThreads("4"), 4);
  EXPECT_EQ(ParseOmpThreads(" 12 "), 12);
  EXPECT_EQ(ParseOmpThreads("8,2"), 8);
  EXPECT_EQ(ParseOmpThreads("0"), 0);
  EXPECT_EQ(ParseOmpThreads("-3"), 0);
  EXPECT_EQ(ParseOmpThreads("many"), 0);
  EXPECT_EQ(ParseOmpThreads("4x"), 0);
  EXPECT_EQ(ParseOmpThreads("99999999999999"), 0);
}

/// A folder of control groups.
class Cgroups : public testing::SystemFolder {};

TEST_F(Cgroups, NoneMeansNoLimit) {
  EXPECT_EQ(CgroupThreads(root_, ""), kNoThreadLimit);
  EXPECT_EQ(CgroupThreads(root_, "0::/\n"), kNoThreadLimit);
  EXPECT_EQ(CgroupThreads(root_, "nonsense\n::\n"), kNoThreadLimit);
}

TEST_F(Cgroups, VersionTwo) {
  Write("cpu.max", "max 100000");
  EXPECT_EQ(CgroupThreads(root_, "0::/\n"), kNoThreadLimit);
  Write("cpu.max", "250000 100000");
  EXPECT_EQ(CgroupThreads(root_, "0::/\n"), 3) << "what is begun counts";
  Write("cpu.max", "1000 100000");
  EXPECT_EQ(CgroupThreads(root_, "0::/\n"), 1);
  Write("cpu.max", "broken");
  EXPECT_EQ(CgroupThreads(root_, "0::/\n"), kNoThreadLimit);
}

TEST_F(Cgroups, TheTightestGroupOnThePathDecides) {
  Write("cpu.max", "max 100000");
  Write("a/cpu.max", "200000 100000");
  Write("a/b/cpu.max", "800000 100000");
  EXPECT_EQ(CgroupThreads(root_, "0::/a/b\n"), 2);
  EXPECT_EQ(CgroupThreads(root_, "0::/not/to/be/seen\n"), kNoThreadLimit);
}

TEST_F(Cgroups, VersionOne) {
  const std::string membership = "5:memory:/x\n4:cpu,cpuacct:/docker/1\n";
  Write("cpu/docker/1/cpu.cfs_quota_us", "-1");
  Write("cpu/docker/1/cpu.cfs_period_us", "100000");
  EXPECT_EQ(CgroupThreads(root_, membership), kNoThreadLimit);
  Write("cpu/docker/1/cpu.cfs_quota_us", "400000");
  EXPECT_EQ(CgroupThreads(root_, membership), 4);
  Write("cpu,cpuacct/cpu.cfs_quota_us", "150000");
  Write("cpu,cpuacct/cpu.cfs_period_us", "100000");
  EXPECT_EQ(CgroupThreads(root_, membership), 2);
}

TEST_F(Cgroups, HyperthreadsOfACoreCountOnce) {
  for (const auto& [processor, siblings] :
       {std::pair{"cpu0", "0,4"}, {"cpu1", "1,5"}, {"cpu4", "0,4"}, {"cpu5", "1,5"}}) {
    Write(std::string(processor) + "/topology/thread_siblings_list", siblings);
  }
  EXPECT_EQ(CountCores(std::vector{0, 1, 4, 5}, root_), 2);
  EXPECT_EQ(CountCores(std::vector{1, 4}, root_), 2) << "one hyperthread of each";
  EXPECT_EQ(CountCores(std::vector{0, 4}, root_), 1);
  EXPECT_EQ(CountCores(std::vector{0, 4, 8, 9}, root_), 3) << "nothing is known about two";
}

TEST(AvailableThreads, StaysWithinTheAffinityMask) {
  const size_t processors = AffinityProcessors().size();
  EXPECT_GE(processors, 1u);
  EXPECT_GE(AvailableThreads(), 1);
  if (ParseOmpThreads(std::getenv("OMP_NUM_THREADS")) == 0) {
    EXPECT_LE(static_cast<size_t>(AvailableThreads()), processors);
  }
}

/// Many small loops, twice: the second time the threads stay awake.
template <typename Body>
void RunTwiceAwake(int threads, const Body& body) {
  int64_t loops = 0;
  for (int run = 0; run < 2; ++run) RunAwake(threads, loops, [&] { body(); });
}

TEST(RunAwake, EveryPieceOfEveryLoopRunsOnce) {
  for (int threads : {1, 2, 3, 8}) {
    std::vector<int> sums(1000, 0);
    RunTwiceAwake(threads, [&] {
      for (int loop = 0; loop < 40; ++loop) {
        ParallelFor(threads, 1000, 1, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) ++sums[static_cast<size_t>(i)];
        });
        // More pieces than threads.
        ParallelPieces(threads, 10, kManyGrains, [&](int piece) {
          for (size_t i = 0; i < 100; ++i) ++sums[static_cast<size_t>(piece) * 100 + i];
        });
      }
    });
    EXPECT_EQ(sums, std::vector<int>(1000, 160)) << threads << " threads";
  }
}

TEST(RunAwake, LoopsInsideOfLoopsStayOnTheirThread) {
  std::atomic<int> elsewhere = 0, count = 0;
  RunTwiceAwake(2, [&] {
    for (int loop = 0; loop < 20; ++loop) {
      ParallelPieces(2, 2, kManyGrains, [&](int) {
        const auto here = std::this_thread::get_id();
        ParallelPieces(2, 4, kManyGrains, [&](int) {
          ++count;
          if (std::this_thread::get_id() != here) ++elsewhere;
        });
      });
    }
  });
  EXPECT_EQ(count, 2 * 20 * 2 * 4);
  EXPECT_EQ(elsewhere, 0);
}

TEST(RunAwake, WhatABodyThrowsComesOut) {
  int64_t loops = 0;
  const auto run = [&](int failing) {
    RunAwake(2, loops, [&] {
      for (int loop = 0; loop < 20; ++loop) {
        ParallelPieces(2, 2, kManyGrains, [&](int piece) {
          if (loop == 10 && piece == failing) throw std::runtime_error("piece");
        });
      }
    });
  };
  run(2);
  EXPECT_THROW(run(0), std::runtime_error);
  EXPECT_THROW(run(1), std::runtime_error);
  run(2);
  RunAwake(2, loops, [] {});  // a run without loops
  EXPECT_EQ(loops, 0);
}

TEST(RunAwake, ManyAtOnceDoNotGetInEachOthersWay) {
  std::atomic<int> wrong = 0;
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      for (int round = 0; round < 5; ++round) {
        const ThreadLease lease(2);
        std::atomic<int64_t> sum = 0;
        RunTwiceAwake(2, [&] {
          for (int loop = 0; loop < 20; ++loop) {
            ParallelFor(2, 100, 1, [&](int64_t begin, int64_t end) { sum += end - begin; });
          }
        });
        if (sum != 2 * 20 * 100) ++wrong;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace oort
