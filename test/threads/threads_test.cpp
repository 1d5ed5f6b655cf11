// SPDX-License-Identifier: MIT
// The thread contract: one graph, many sessions, each on its own thread. Run under
// ThreadSanitizer as well.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "core/own_threads.h"
#include "core/parallel.h"
#include "core/spin_team.h"
#include "core/thread_budget.h"
#include "kit/paths.h"
#include "oort/oort.h"
#include "oort/testing.h"

namespace oort {
namespace {

constexpr int kThreads = 16;

std::filesystem::path Case(const char* name) { return TestData() / "corpus" / name; }

std::shared_ptr<const RuntimeGraph> LoadCase(const char* name) {
  return RuntimeGraph::Load(Case(name) / "model.pnnx.param", Case(name) / "model.pnnx.bin");
}

bool SameBytes(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

template <typename Body>
void OnManyThreads(Body body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back([=] { body(i); });
  for (std::thread& thread : threads) thread.join();
}

class SharedGraph : public ::testing::TestWithParam<const char*> {};

TEST_P(SharedGraph, SixteenSessionsAnswerLikeOne) {
  const auto graph = LoadCase(GetParam());
  const Port& port = graph->inputs()[0];
  std::vector<Tensor> inputs, expected;
  for (int i = 0; i < kThreads; ++i) {
    inputs.push_back(testing::RandomTensor(port.dtype, port.shape, static_cast<uint64_t>(i) + 1));
    expected.push_back(Session(graph, {.threads = 1}).Forward({inputs.back()})[0]);
  }
  std::atomic<int> wrong = 0;
  OnManyThreads([&](int i) {
    Session session(graph, {.threads = 1});
    for (int round = 0; round < 3; ++round) {
      const size_t which = static_cast<size_t>((i + round) % kThreads);
      if (!SameBytes(session.Forward({inputs[which]})[0], expected[which])) ++wrong;
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST_P(SharedGraph, PlansForManyShapesAreSharedSafely) {
  const auto graph = LoadCase(GetParam());
  const Port& port = graph->inputs()[0];
  std::atomic<int> wrong = 0;
  OnManyThreads([&](int i) {
    Session session(graph, {.threads = 1});
    for (int64_t batch = 1; batch <= 3; ++batch) {
      Shape shape = port.shape;
      shape[0] = (batch + i) % 4 + 1;
      const Tensor input = testing::RandomTensor(port.dtype, shape, 7);
      if (session.Forward({input})[0].dim(0) != shape[0]) ++wrong;
    }
  });
  EXPECT_EQ(wrong, 0);
}

INSTANTIATE_TEST_SUITE_P(Networks, SharedGraph, ::testing::Values("mini_resnet", "mini_mobilenet"));

TEST(SharedRegistry, IsReadWhileModelsAreBuilt) {
  std::atomic<int> failed = 0;
  OnManyThreads([&](int i) {
    try {
      if (i % 4 == 0) {
        OperatorSchema schema({"test.thread" + std::to_string(i)}, "for tests");
        schema.Tensor("input", kF32Only);
        LayerRegistry::Global().Add(
            schema, [](const LayerInit&) -> std::unique_ptr<Layer> { return nullptr; });
      } else {
        LoadCase("mini_resnet");
      }
    } catch (const Error&) {
      ++failed;
    }
  });
  EXPECT_EQ(failed, 0);
}

TEST(SeveralThreadsInOneSession, GiveTheSameBits) {
  const auto graph = LoadCase("mini_resnet");
  const Port& port = graph->inputs()[0];
  const Tensor input = testing::RandomTensor(port.dtype, port.shape, 3);
  const Tensor one = Session(graph, {.threads = 1}).Forward({input})[0];
  for (int threads : {2, 3, 8}) {
    EXPECT_TRUE(SameBytes(Session(graph, {.threads = threads}).Forward({input})[0], one))
        << threads << " threads";
  }
}

TEST(ThreadBudget, ManyComeAndGoAtOnce) {
  ThreadBudget budget(kThreads);
  std::atomic<int> wrong = 0;
  OnManyThreads([&](int i) {
    for (int round = 0; round < 200; ++round) {
      const int wanted = 1 + (i + round) % 8;
      ThreadShare share(budget);
      share.Enter(wanted);
      if (share.Cap() < 1) ++wrong;
      share.Leave(wanted);
    }
  });
  EXPECT_EQ(wrong, 0);
  budget.Enter(64);
  EXPECT_EQ(budget.cap(), ThreadBudget::kUnlimited) << "somebody is still counted";
}

TEST(ThreadBudget, SessionsAtOnceGiveTheAnswersOfOne) {
  const auto graph = LoadCase("mini_resnet");
  const Port& port = graph->inputs()[0];
  const Tensor input = testing::RandomTensor(port.dtype, port.shape, 1);
  const Tensor expected = Session(graph, {.threads = 1}).Forward({input})[0];
  std::atomic<int> wrong = 0;
  OnManyThreads([&](int i) {
    Session session(graph, {.threads = 1 + i % 4});
    for (int round = 0; round < 3; ++round) {
      if (!SameBytes(session.Forward({input})[0], expected)) ++wrong;
    }
  });
  EXPECT_EQ(wrong, 0);
}

/// Numbers without locks, written and read in regions of changing sizes, before and behind sleeps.
TEST(OwnThreads, SeeWhatTheCallerWroteAndItSeesTheirs) {
  constexpr int kMost = 5;
  std::atomic<int> wrong = 0;
  const auto run = [&] {
    OwnThreads threads;
    std::vector<int> sums(kMost, 0);
    int given = 0;
    for (int turn = 1; turn <= 200; ++turn) {
      given = turn;
      const int parts = 1 + turn % kMost;
      threads.Run(parts, [&](int part) { sums[static_cast<size_t>(part)] = given + part; });
      for (int i = 0; i < parts; ++i) wrong += sums[static_cast<size_t>(i)] != turn + i ? 1 : 0;
      if (turn % 50 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  };
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) callers.emplace_back(run);
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

/// The same through loops, whose portions threads take from each other.
TEST(ParallelFor, OfManyThreadsAtOnceCoversEveryItemOnce) {
  constexpr int64_t kItems = 500;
  std::atomic<int> wrong = 0;
  OnManyThreads([&](int i) {
    std::vector<int> seen(kItems, 0);
    for (int loop = 0; loop < 20; ++loop) {
      ParallelFor(1 + i % 4, kItems, loop % 2 == 0 ? 1 : 100, [&](int64_t begin, int64_t end) {
        for (int64_t item = begin; item < end; ++item) ++seen[static_cast<size_t>(item)];
      });
    }
    if (seen != std::vector<int>(kItems, 20)) ++wrong;
  });
  EXPECT_EQ(wrong, 0);
}

TEST(SpinTeam, ThreadsSeeWhatTheLeaderWroteAndItSeesTheirs) {
  constexpr int kTeam = 4;
  SpinTeam team;
  team.Begin(kTeam);
  std::vector<std::thread> others;
  for (int i = 1; i < kTeam; ++i) others.emplace_back([&team, i] { team.Wait(i); });
  int given = 0, wrong = 0;
  std::vector<int> sums(kTeam, 0);
  for (int turn = 1; turn <= 300; ++turn) {
    given = turn;
    // Fewer than all of them now and then: the rest waits on.
    const int threads = 1 + turn % kTeam;
    team.Run(threads, [&](int thread) { sums[static_cast<size_t>(thread)] = given + thread; });
    for (int i = 0; i < threads; ++i) wrong += sums[static_cast<size_t>(i)] != turn + i ? 1 : 0;
  }
  team.End();
  for (std::thread& other : others) other.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace oort
