// SPDX-License-Identifier: MIT
#include "llm/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "kit/sanitized.h"

namespace oort {
namespace {

constexpr int64_t kBlock = BlockPool::kBlockTokens;

std::unique_ptr<Sequence> Make(int64_t id, std::vector<int32_t> prompt, int64_t most_length) {
  auto sequence = std::make_unique<Sequence>();
  sequence->id = id;
  sequence->tokens = std::move(prompt);
  sequence->most_length = most_length;
  return sequence;
}

std::vector<int32_t> Prompt(int64_t length, int32_t first = 0) {
  std::vector<int32_t> tokens(static_cast<size_t>(length));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

/// Keeps up to so many sequences, and checks that each comes back as it was.
class CountingSaver : public BlockSaver {
 public:
  explicit CountingSaver(size_t most) : most_(most) {}
  bool Save(const Sequence& sequence) override {
    if (saved_.size() >= most_) return false;
    saved_[sequence.id] = sequence.computed;
    return true;
  }
  void Restore(const Sequence& sequence) override {
    EXPECT_EQ(saved_.at(sequence.id), sequence.computed);
    EXPECT_GE(sequence.cached.blocks.size() * kBlock, sequence.computed);
    saved_.erase(sequence.id);
  }
  void Forget(const Sequence& sequence) noexcept override { saved_.erase(sequence.id); }
  size_t size() const { return saved_.size(); }

 private:
  size_t most_;
  std::map<int64_t, int64_t> saved_;
};

/// Runs what Next says: whoever has no token left to compute gets the next one of its answer.
std::string RunStep(Scheduler& scheduler, std::vector<Sequence*>* finished = nullptr) {
  std::string log;
  for (const StepShare& share : scheduler.Next()) {
    Sequence& sequence = *share.sequence;
    log += std::to_string(sequence.id) + ":" + std::to_string(share.count) + " ";
    scheduler.Computed(sequence, share.count);
    if (sequence.pending() > 0) continue;
    if (sequence.length() < sequence.most_length) {
      sequence.tokens.push_back(static_cast<int32_t>(sequence.id * 1000 + sequence.length()));
    } else if (finished != nullptr) {
      finished->push_back(&sequence);
    }
  }
  return log;
}

TEST(Scheduler, ReadsPromptsInPartsAndAnswersInTurns) {
  BlockPool pool(64, 1);
  BlockSaver none;
  Scheduler scheduler(pool, {.step_tokens = 32}, none);
  scheduler.Add(Make(0, Prompt(80), 100));
  EXPECT_EQ(RunStep(scheduler), "0:26 ");
  scheduler.Add(Make(1, Prompt(8, 500), 100));
  EXPECT_EQ(RunStep(scheduler), "1:8 ") << "the short prompt first, since nobody has an answer";
  EXPECT_EQ(RunStep(scheduler), "1:1 ");
  EXPECT_EQ(RunStep(scheduler), "0:27 ");
  EXPECT_EQ(RunStep(scheduler), "1:1 ");
  EXPECT_EQ(RunStep(scheduler), "0:27 ");
  EXPECT_EQ(RunStep(scheduler), "0:1 1:1 ");
  scheduler.Check();
}

/// Wherever a prompt is cut, its parts are as many tokens as kernels for many want.
TEST(Scheduler, PartsOfALongPromptAreNotFew) {
  for (int64_t length = 13; length < 300; ++length) {
    for (const int64_t most : {26, 64, 100}) {
      BlockPool pool(64, 1);
      BlockSaver none;
      Scheduler scheduler(pool, {.step_tokens = 512, .few_tokens = 12}, none);
      Sequence& prompt = scheduler.Add(Make(0, Prompt(length), length));
      scheduler.set_step_tokens(most);
      while (prompt.pending() > 0) {
        const std::vector<StepShare> step = scheduler.Next();
        ASSERT_EQ(step.size(), 1u);
        ASSERT_GT(step[0].count, 12) << length << " by " << most;
        ASSERT_LE(step[0].count, most);
        scheduler.Computed(prompt, step[0].count);
      }
    }
  }
}

/// A prompt that is cut between two tiles is computed row by row as if it were not.
TEST(Scheduler, PartsOfALongPromptAreWholeTiles) {
  for (int64_t length = 33; length < 300; ++length) {
    for (const int64_t most : {32, 50, 64, 100}) {
      BlockPool pool(64, 1);
      BlockSaver none;
      Scheduler scheduler(pool, {.step_tokens = 512, .few_tokens = 16, .tile_tokens = 16}, none);
      Sequence& prompt = scheduler.Add(Make(0, Prompt(length), length));
      scheduler.set_step_tokens(most);
      while (prompt.pending() > 0) {
        const int64_t count = scheduler.Next().at(0).count;
        ASSERT_TRUE(count % 16 == 0 || count == prompt.pending()) << length << " by " << most;
        ASSERT_GT(count, 16) << length << " by " << most;
        ASSERT_LE(count, std::max<int64_t>(most, 48)) << length << " by " << most;
        scheduler.Computed(prompt, count);
      }
    }
  }
}

/// The longest part is what answers wait for: it is no longer than so many parts need.
TEST(Scheduler, PartsOfAPromptBesideAnswersAreEven) {
  const auto parts = [](int64_t length, int64_t most) {
    BlockPool pool(64, 1);
    BlockSaver none;
    Scheduler scheduler(pool, {.step_tokens = 512, .few_tokens = 16, .tile_tokens = 16}, none);
    Sequence& prompt = scheduler.Add(Make(0, Prompt(length), length));
    scheduler.set_step_tokens(most);
    std::vector<int64_t> counts;
    for (; prompt.pending() > 0; scheduler.Computed(prompt, counts.back())) {
      counts.push_back(scheduler.Next().at(0).count);
    }
    return counts;
  };
  using Counts = std::vector<int64_t>;
  EXPECT_EQ(parts(70, 60), (Counts{32, 38}));
  EXPECT_EQ(parts(128, 100), (Counts{64, 64}));
  EXPECT_EQ(parts(41, 32), Counts{41}) << "not 32 and 9, which are few";
  EXPECT_EQ(parts(600, 512), (Counts{512, 88})) << "nobody waits";
}

TEST(Scheduler, MixesPromptsAndAnswersWhereItMay) {
  BlockPool pool(64, 1);
  BlockSaver none;
  Scheduler scheduler(pool, {.step_tokens = 32, .mixed_steps = true}, none);
  scheduler.Add(Make(0, Prompt(20), 100));
  scheduler.Add(Make(1, Prompt(40, 500), 100));
  EXPECT_EQ(RunStep(scheduler), "0:20 1:12 ");
  EXPECT_EQ(RunStep(scheduler), "0:1 1:28 ");
  EXPECT_EQ(RunStep(scheduler), "0:1 1:1 ");
}

TEST(Scheduler, BeginsWithBlocksThatOthersComputed) {
  BlockPool pool(64, 1);
  BlockSaver none;
  Scheduler scheduler(pool, {.step_tokens = 64}, none);
  Sequence& first = scheduler.Add(Make(0, Prompt(40), 50));
  Sequence& equal = scheduler.Add(Make(1, Prompt(40), 50));
  EXPECT_EQ(RunStep(scheduler), "0:40 ") << "the second waits for what is being read";
  EXPECT_EQ(RunStep(scheduler), "0:1 ");
  EXPECT_EQ(RunStep(scheduler), "1:8 ");
  EXPECT_EQ(equal.reused, 32);
  EXPECT_EQ(first.cached.blocks.blocks()[1], equal.cached.blocks.blocks()[1]);
  EXPECT_NE(first.cached.blocks.blocks()[2], equal.cached.blocks.blocks()[2]);
  Sequence& stranger = scheduler.Add(Make(2, Prompt(40), 50));
  stranger.name_space = 9;
  RunStep(scheduler);
  RunStep(scheduler);
  EXPECT_EQ(stranger.reused, 0) << "another name space";
  scheduler.Remove(first);
  scheduler.Remove(equal);
  scheduler.Remove(stranger);
  EXPECT_EQ(pool.used_blocks(), 0);
  EXPECT_GT(pool.cached_blocks(), 0);
  scheduler.Check();
}

TEST(Scheduler, TheNextTurnBeginsWithTheLastBlockFullOrNot) {
  BlockPool pool(64, 1);
  BlockSaver none;
  Scheduler scheduler(pool, {.step_tokens = 64}, none);
  Sequence& turn = scheduler.Add(Make(0, Prompt(40), 46));
  while (turn.pending() > 0) RunStep(scheduler);
  std::vector<int32_t> text = turn.tokens;
  const int32_t last = turn.cached.blocks.blocks()[2];
  scheduler.Remove(turn);
  EXPECT_EQ(pool.cached_blocks(), 3);
  for (int32_t token = 0; token < 5; ++token) text.push_back(9000 + token);
  Sequence& next = scheduler.Add(Make(1, text, 60));
  EXPECT_EQ(RunStep(scheduler), "1:5 ");
  EXPECT_EQ(next.reused, 46);
  EXPECT_EQ(next.cached.blocks.blocks()[2], last);
  Sequence& other = scheduler.Add(Make(2, text, 60));
  RunStep(scheduler);
  RunStep(scheduler);
  EXPECT_EQ(other.reused, 48) << "by then that block is full";
  scheduler.Check();
}

TEST(Scheduler, ABlockThatIsNotFullIsTakenByOne) {
  BlockPool pool(8, 1);
  BlockSaver none;
  Scheduler scheduler(pool, {.step_tokens = 64}, none);
  Sequence& first = scheduler.Add(Make(0, Prompt(20), 20));
  RunStep(scheduler);
  scheduler.Remove(first);
  std::vector<int32_t> one = Prompt(20), two = Prompt(20);
  for (int32_t token = 0; token < 8; ++token) {
    one.push_back(7000 + token);
    two.push_back(8000 + token);
  }
  Sequence& left = scheduler.Add(Make(1, one, 40));
  Sequence& right = scheduler.Add(Make(2, two, 40));
  for (int i = 0; i < 3; ++i) RunStep(scheduler);
  EXPECT_EQ(left.reused, 20);
  EXPECT_EQ(right.reused, 16);
  EXPECT_NE(left.cached.blocks.blocks()[1], right.cached.blocks.blocks()[1]);
  scheduler.Check();
}

TEST(Scheduler, AForkSharesAllButThePartialBlock) {
  BlockPool pool(64, 1);
  BlockSaver none;
  Scheduler scheduler(pool, {.step_tokens = 64}, none);
  Sequence& parent = scheduler.Add(Make(0, Prompt(40), 60));
  RunStep(scheduler);
  std::optional<std::pair<int32_t, int32_t>> copy;
  Sequence* child = scheduler.Fork(parent, Make(1, Prompt(41), 60), copy);
  ASSERT_NE(child, nullptr);
  ASSERT_TRUE(copy);
  EXPECT_EQ(copy->first, parent.cached.blocks.blocks()[2]);
  EXPECT_EQ(copy->second, child->cached.blocks.blocks()[2]);
  EXPECT_EQ(pool.used_blocks(), 4);
  EXPECT_EQ(scheduler.used_tokens(), 32 + 8 + 8);
  EXPECT_EQ(RunStep(scheduler), "0:1 1:1 ");
  EXPECT_EQ(scheduler.used_tokens(), 32 + 9 + 9);
  scheduler.Check();
}

TEST(Scheduler, TheYoungestGivesWayAndGoesOnLater) {
  for (size_t saved : {size_t{0}, size_t{1}}) {
    BlockPool pool(4, 1);
    CountingSaver saver(saved);
    Scheduler scheduler(pool, {.step_tokens = 64, .expect_growth = false, .watermark = 0}, saver);
    Sequence& old = scheduler.Add(Make(0, Prompt(30), 64));
    Sequence& young = scheduler.Add(Make(1, Prompt(30, 500), 64));
    for (int i = 0; i < 5; ++i) RunStep(scheduler);
    EXPECT_EQ(scheduler.preemptions(), 1);
    EXPECT_EQ(young.preemptions, 1);
    EXPECT_EQ(young.saved, saved == 1);
    while (old.pending() > 0) RunStep(scheduler);
    scheduler.Remove(old);
    while (young.pending() > 0) RunStep(scheduler);
    EXPECT_EQ(young.length(), 64);
    scheduler.Check();
  }
}

/// Requests of mixed lengths, all at once: how often one was preempted, and in how many steps all
/// were done.
std::pair<int64_t, int64_t> RunMixed(bool expect_growth) {
  BlockPool pool(256, 1);
  BlockSaver none;
  Scheduler scheduler(pool, {.expect_growth = expect_growth}, none);
  std::mt19937 random(5);
  const auto draw = [&] { return 8 + static_cast<int64_t>(random() % 392); };
  for (int64_t id = 0; id < 200; ++id) {
    const int64_t prompt = draw();
    scheduler.Add(Make(id, Prompt(prompt, static_cast<int32_t>(1000 * id)), prompt + draw()));
  }
  int64_t steps = 0;
  for (; !scheduler.empty(); ++steps) {
    std::vector<Sequence*> finished;
    RunStep(scheduler, &finished);
    for (Sequence* sequence : finished) scheduler.Remove(*sequence);
  }
  return {scheduler.preemptions(), steps};
}

TEST(Scheduler, WhoExpectsGrowthPreemptsFewAndIsDoneNoLater) {
  const auto [preempted, steps] = RunMixed(false);
  const auto [preempted_less, steps_expecting] = RunMixed(true);
  EXPECT_GT(preempted, 100);
  EXPECT_LE(preempted_less, 8);
  EXPECT_LE(steps_expecting, steps);
}

TEST(AnswerLengths, FollowWhatAnswersTake) {
  AnswerLengths lengths;
  for (int i = 0; i < 200; ++i) lengths.Ended(100, 100);  // each took all that it might
  EXPECT_NEAR(static_cast<double>(lengths.Left(0, 80)), 80, 2);
  EXPECT_EQ(lengths.Left(80, 80), 0);
  EXPECT_NEAR(static_cast<double>(lengths.Left(0, 8000)), 200, 2) << "no more than twice the mean";
  for (int i = 0; i < 200; ++i) lengths.Ended(50, 8000);  // no limit, and short answers
  EXPECT_LE(lengths.Left(0, 8000), 101);
  EXPECT_NEAR(static_cast<double>(lengths.Left(400, 8000)), 100, 2) << "longer than expected";
  const int64_t before = lengths.Left(0, 1000);
  for (int i = 0; i < 50; ++i) lengths.Exceeded();
  EXPECT_GT(lengths.Left(0, 1000), before);
}

TEST(PeakBlocks, IsThatOfTheStepBeforeTheWorstEnd) {
  std::vector<ExpectedLife> none;
  EXPECT_EQ(PeakBlocks(none), 0);
  std::vector<ExpectedLife> one = {{100, 60}};
  EXPECT_EQ(PeakBlocks(one), 11);  // 100 + 60 + 8
  // When the first ends the other has 110 tokens, and goes on to 200: 100 + 10 + 100 + 10 + 16.
  std::vector<ExpectedLife> two = {{100, 10}, {100, 100}};
  EXPECT_EQ(PeakBlocks(two), 15);
}

TEST(Scheduler, ReservingModePreemptsNobody) {
  BlockPool pool(8, 1);
  BlockSaver none;
  Scheduler scheduler(pool, {.step_tokens = 64, .reserve = true}, none);
  Sequence& first = scheduler.Add(Make(0, Prompt(30), 80));
  scheduler.Add(Make(1, Prompt(30, 500), 80));
  for (int i = 0; i < 60; ++i) RunStep(scheduler);
  EXPECT_EQ(scheduler.running(), 1);
  scheduler.Remove(first);
  for (int i = 0; i < 60; ++i) RunStep(scheduler);
  EXPECT_EQ(scheduler.preemptions(), 0);
}

TEST(Scheduler, RefusesWhatCanNeverFit) {
  BlockPool pool(2, 1);
  BlockSaver none;
  Scheduler scheduler(pool, {}, none);
  EXPECT_THROW(scheduler.Add(Make(0, Prompt(10), 33)), Error);
  EXPECT_TRUE(scheduler.empty());
}

TEST(Scheduler, CallersShareTheMachine) {
  BlockPool pool(64, 1);
  BlockSaver none;
  Scheduler scheduler(pool, {.step_tokens = 64, .most_running = 1}, none);
  for (int64_t id = 0; id < 6; ++id) {
    auto sequence = Make(id, Prompt(16, static_cast<int32_t>(100 * id)), 16);
    sequence->caller = id < 5 ? 1 : 2;  // the second caller comes last, with one
    scheduler.Add(std::move(sequence));
  }
  std::vector<int64_t> order;
  while (!scheduler.empty()) {
    std::vector<Sequence*> finished;
    RunStep(scheduler, &finished);
    for (Sequence* sequence : finished) order.push_back(scheduler.Remove(*sequence)->id);
  }
  EXPECT_EQ(order[1], 5) << "one of the first caller, then the second caller's";
}

TEST(Scheduler, ALongPromptIsNotStarvedByShortOnes) {
  BlockPool pool(16, 1);
  BlockSaver none;
  Scheduler scheduler(pool, {.step_tokens = 256}, none);
  int64_t next = 1;
  for (; next < 4; ++next)
    scheduler.Add(Make(next, Prompt(32, static_cast<int32_t>(next * 1000)), 48));
  RunStep(scheduler);
  Sequence& big = scheduler.Add(Make(0, Prompt(200), 210));
  int steps = 0;
  for (; big.computed == 0 && steps < 10'000; ++steps) {
    if (scheduler.waiting() < 4) {
      scheduler.Add(Make(next, Prompt(32, static_cast<int32_t>(next * 1000)), 48));
      ++next;
    }
    std::vector<Sequence*> finished;
    RunStep(scheduler, &finished);
    for (Sequence* sequence : finished) scheduler.Remove(*sequence);
  }
  EXPECT_GT(big.computed, 0) << "after " << steps << " steps";
}

/// One random trace: arrivals, cancels, small pools. Returns a log of all steps.
std::string RunTrace(uint32_t seed, bool check) {
  std::mt19937 random(seed);
  const auto between = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
  };
  const int64_t blocks = between(2, 24);
  BlockPool pool(blocks, random());
  CountingSaver saver(static_cast<size_t>(between(0, 2)));
  SchedulerOptions options;
  options.step_tokens = between(1, 64);
  options.prompt_tokens = between(1, 64);
  options.few_tokens = between(0, 12);
  options.tile_tokens = between(1, 16);
  options.most_running = between(1, 8);
  options.mixed_steps = between(0, 1) == 1;
  options.reserve = between(0, 3) == 0;
  options.expect_growth = between(0, 1) == 1;
  options.watermark = between(0, 1) == 1 ? 0.05 : 0.0;
  options.share_prefixes = between(0, 3) > 0;
  Scheduler scheduler(pool, options, saver);
  const int64_t requests = between(1, 10);
  int64_t added = 0, ended = 0, work = 0, steps = 0;
  std::string log;
  std::vector<Sequence*> alive;
  while (ended < requests) {
    if (added < requests && (scheduler.empty() || between(0, 3) == 0)) {
      const int64_t most = between(1, blocks * kBlock);
      const int64_t prompt = between(1, std::min<int64_t>(most, 90));
      auto sequence = Make(added, Prompt(prompt, static_cast<int32_t>(between(0, 1))), most);
      sequence->priority = static_cast<int>(between(0, 1));
      sequence->caller = static_cast<uint64_t>(between(0, 2));
      work += most;
      alive.push_back(&scheduler.Add(std::move(sequence)));
      ++added;
    }
    std::vector<Sequence*> finished;
    const bool could_admit = scheduler.CouldAdmit();
    const int64_t waited = scheduler.waiting();
    const std::string step = RunStep(scheduler, &finished);
    if (!could_admit && scheduler.waiting() < waited)
      return "admitted unexpectedly: seed " + std::to_string(seed);
    // Something always goes on: what is here can be computed.
    if (step.empty() && !scheduler.empty())
      return "a step computed nothing: seed " + std::to_string(seed);
    log += step + "\n";
    if (!alive.empty() && between(0, 40) == 0)
      finished.push_back(
          alive[static_cast<size_t>(between(0, static_cast<int64_t>(alive.size()) - 1))]);
    std::set<Sequence*> gone(finished.begin(), finished.end());
    for (Sequence* sequence : gone) {
      scheduler.Remove(*sequence);
      std::erase(alive, sequence);
      ++ended;
    }
    if (check) scheduler.Check();
    // Each token is computed once for its sequence, and once more for each time that it was
    // preempted.
    if (++steps > (work + requests + 1) * (requests + options.most_preemptions + 1)) {
      return "no end: seed " + std::to_string(seed);
    }
  }
  scheduler.Check();
  if (pool.used_blocks() != 0 || saver.size() != 0)
    return "something is left: seed " + std::to_string(seed);
  if (options.reserve && scheduler.preemptions() > 0)
    return "preempted: seed " + std::to_string(seed);
  return log;
}

TEST(Scheduler, RandomTracesEnd) {
#ifdef OORT_FULL_TESTS
  constexpr uint32_t kTraces = 100'000;
#else
  constexpr uint32_t kTraces = testing::IsSanitized() ? 2'000 : 20'000;  // others every time
#endif
  const uint32_t first = std::random_device()();
  for (uint32_t i = 0; i < kTraces; ++i) {
    const std::string log = RunTrace(first + i, i % 64 == 0);
    ASSERT_FALSE(log.empty());
    ASSERT_EQ(log.find("seed"), std::string::npos) << log;
  }
}

TEST(Scheduler, DecisionsDependOnTheCallsAlone) {
  for (uint32_t seed = 0; seed < 200; ++seed) ASSERT_EQ(RunTrace(seed, true), RunTrace(seed, true));
}

}  // namespace
}  // namespace oort
