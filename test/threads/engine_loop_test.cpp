// SPDX-License-Identifier: MIT
#include "oort/engine_loop.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <thread>
#include <vector>

#include "kit/errors.h"
#include "kit/paths.h"
#include "oort/error.h"

namespace oort {
namespace {

using namespace std::chrono_literals;

std::shared_ptr<const LanguageModel> LoopModel() {
  static const auto model = LanguageModel::Load(TestData() / "checkpoints/llama", {.exact = true});
  return model;
}

GenerateRequest LoopRequest(std::vector<int32_t> prompt, int64_t tokens) {
  GenerateRequest request;
  request.prompt = std::move(prompt);
  request.max_tokens = tokens;
  request.ignore_end = true;
  return request;
}

TEST(EngineLoop, AnswersRequestsOfManyThreads) {
  std::vector<std::vector<int32_t>> want;
  Engine alone(LoopModel());
  for (int32_t i = 0; i < 8; ++i)
    want.push_back(alone.Generate(LoopRequest({i, i + 3}, 12)).tokens);
  EngineLoop loop(LoopModel());
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int32_t i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 4; ++round) {
        EngineLoop::Request request = loop.Submit(LoopRequest({i, i + 3}, 12));
        if (request.Wait().tokens == want[static_cast<size_t>(i)]) ++right;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 32);
  EXPECT_TRUE(loop.Drain(10s));
  EXPECT_EQ(loop.stats().running, 0);
  EXPECT_EQ(loop.stats().used_blocks, 0);
  EXPECT_EQ(loop.stats().generated_tokens, 32 * 12);
}

TEST(EngineLoop, TellsEachCallerWhatWentWrongForIt) {
  EngineLoop loop(LoopModel());
  EngineLoop::Request good = loop.Submit(LoopRequest({1, 2}, 5));
  EngineLoop::Request bad = loop.Submit(LoopRequest({1, -7}, 5));
  testing::ExpectThrows([&] { bad.Wait(); }, ErrorCode::kInvalidArgument, "");
  EXPECT_EQ(good.Wait().tokens.size(), 5u);
  testing::ExpectThrows([&] { good.Wait(); }, ErrorCode::kInvalidArgument, "once");
}

TEST(EngineLoop, CallsWhenAnAnswerIsReady) {
  EngineLoop loop(LoopModel());
  std::atomic<int> calls = 0;
  const auto count = [&] { ++calls; };
  EngineLoop::Request good = loop.Submit(LoopRequest({1, 2}, 5), count);
  EngineLoop::Request bad = loop.Submit(LoopRequest({1, -7}, 5), count);
  EngineLoop::Request cancelled = loop.Submit(LoopRequest({1, 2}, -1), count);
  cancelled.Cancel();
  loop.Submit(LoopRequest({1, 2}, 5), [&] {
    ++calls;
    throw Error(ErrorCode::kInternal, "what a callback throws ends nothing");
  });
  EXPECT_TRUE(loop.Drain(60s));
  EXPECT_EQ(calls, 4);
  EXPECT_TRUE(good.ready());
  EXPECT_TRUE(bad.ready());
  EXPECT_TRUE(cancelled.ready());
}

TEST(EngineLoop, AHandleThatGoesEndsItsRequest) {
  EngineLoop loop(LoopModel());
  std::atomic<int> pieces = 0;
  {
    GenerateRequest request = LoopRequest({1, 2}, -1);
    request.on_piece = [&](const GeneratedPiece&) { return ++pieces > 0; };
    EngineLoop::Request handle = loop.Submit(std::move(request));
    while (pieces == 0) std::this_thread::yield();
  }
  EXPECT_TRUE(loop.Drain(60s));
  EXPECT_EQ(loop.stats().used_blocks, 0);
}

TEST(EngineLoop, CancelsOneAndLeavesItsNeighbourAlone) {
  EngineLoop loop(LoopModel());
  std::atomic<bool> began = false;
  GenerateRequest endless = LoopRequest({1, 2}, -1);
  endless.on_piece = [&](const GeneratedPiece&) { return (began = true); };
  EngineLoop::Request first = loop.Submit(std::move(endless));
  EngineLoop::Request second = loop.Submit(LoopRequest({5, 6}, 6));
  while (!began) std::this_thread::yield();
  first.Cancel();
  EXPECT_EQ(second.Wait().tokens.size(), 6u);
  const GenerateResult cancelled = first.Wait();
  EXPECT_TRUE(cancelled.finish == FinishReason::kCancelled ||
              cancelled.finish == FinishReason::kLength);
}

TEST(EngineLoop, RefusesWhatItCannotQueue) {
  EngineLoopOptions options;
  options.most_waiting_tokens = 3;
  EngineLoop loop(LoopModel(), options);
  testing::ExpectThrows(
      [&] {
        loop.Submit(LoopRequest({1, 2, 3, 4}, 1));
      },
      ErrorCode::kLimit, "try again later");
  EXPECT_TRUE(loop.Drain(10s));
  testing::ExpectThrows([&] { loop.Submit(LoopRequest({1}, 1)); }, ErrorCode::kLimit, "no more");
}

TEST(EngineLoop, CancelsWhatIsLeftAtItsEnd) {
  EngineLoop::Request left;
  {
    EngineLoop loop(LoopModel());
    left = loop.Submit(LoopRequest({1, 2}, -1));
  }
  const GenerateResult result = left.Wait();
  EXPECT_TRUE(result.finish == FinishReason::kCancelled || result.finish == FinishReason::kLength);
}

/// Several answers, beams and cancelled requests of several threads at once.
TEST(EngineLoop, ManyAnswersOfManyThreads) {
  const auto request_of = [](int kind) {
    GenerateRequest request = LoopRequest({kind, kind + 5, 7}, 10);
    if (kind % 3 == 0) {
      request.beams.width = 3;
    } else {
      request.sampling.temperature = 1;
      request.n = 3;
      request.best_of = kind % 3 == 1 ? 4 : 0;
    }
    return request;
  };
  std::vector<GenerateResult> want;
  Engine alone(LoopModel());
  for (int kind = 0; kind < 6; ++kind) want.push_back(alone.Generate(request_of(kind)));
  EngineLoop loop(LoopModel());
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int kind = 0; kind < 6; ++kind) {
    threads.emplace_back([&, kind] {
      for (int round = 0; round < 3; ++round) {
        EngineLoop::Request cancelled = loop.Submit(request_of(kind));
        EngineLoop::Request request = loop.Submit(request_of(kind));
        cancelled.Cancel();
        const GenerateResult result = request.Wait();
        const GenerateResult& wanted = want[static_cast<size_t>(kind)];
        bool same = result.tokens == wanted.tokens && result.others.size() == wanted.others.size();
        for (size_t i = 0; same && i < wanted.others.size(); ++i) {
          same = result.others[i].tokens == wanted.others[i].tokens;
        }
        const GenerateTimings& timings = result.timings;
        const bool in_order = timings.arrived <= timings.started &&
                              timings.started <= timings.first_token &&
                              timings.first_token <= timings.finished;
        if (same && in_order) ++right;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 18);
  EXPECT_TRUE(loop.Drain(60s));
  EXPECT_EQ(loop.stats().used_blocks, 0);
}

}  // namespace
}  // namespace oort
