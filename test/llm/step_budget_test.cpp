// SPDX-License-Identifier: MIT
#include "llm/step_budget.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "llm/scheduler.h"

namespace oort {
namespace {

TEST(StepBudget, KeepsStepsWithAnswersShort) {
  StepBudget budget({.most = 2048, .seconds = 0.1, .has_both = true});
  EXPECT_EQ(budget.Tokens(true), 2048);  // nothing is known yet
  budget.ObservePrompts(1000, 0.5);      // 2000 a second
  EXPECT_EQ(budget.Tokens(true), 200);
  EXPECT_EQ(budget.Tokens(false), 2048);  // nobody reads
  budget.ObservePrompts(8, 0.5);          // says nothing of many
  EXPECT_EQ(budget.Tokens(true), 200);
  for (int i = 0; i < 50; ++i) budget.ObservePrompts(2000, 0.01);
  EXPECT_EQ(budget.Tokens(true), 2048);
  for (int i = 0; i < 50; ++i) budget.ObservePrompts(100, 10);
  EXPECT_EQ(budget.Tokens(true), 64);  // something always goes on
  EXPECT_EQ(StepBudget({.most = 16, .seconds = 0.001}).Tokens(true), 16);
  StepBudget unlimited({.most = 512});
  unlimited.ObservePrompts(1000, 100);
  EXPECT_EQ(unlimited.Tokens(true), 512);
}

TEST(StepBudget, PromptsGetWhatAnswersLeaveOfTheTime) {
  StepBudget budget({.most = 512, .least = 32, .seconds = 0.04});
  budget.ObservePrompts(100, 0.1);
  EXPECT_EQ(budget.Tokens(true), 40);
  const auto turn = [&](std::vector<double> steps) {
    for (const double seconds : steps) budget.ObserveAnswers(seconds);
    budget.EndTurn();
  };
  turn({0.005});
  EXPECT_EQ(budget.Tokens(true), 35);
  turn({0.002, 0.003, 0.002});
  EXPECT_NEAR(budget.Tokens(true), 33, 1) << "who reads waits for the steps of all answers";
  for (int i = 0; i < 50; ++i) turn({0.1});
  EXPECT_NEAR(budget.Tokens(true), 100, 1) << "half of the time at least";
}

/// Short steps have fewer tokens a second than long ones: what long ones took does not make a short
/// one too long.
TEST(StepBudget, KnowsThatStepsTakeTimeBeforeTheirFirstToken) {
  StepBudget budget({.most = 512, .least = 32, .seconds = 0.05});
  const auto seconds = [](double tokens) { return 0.03 + 0.0004 * tokens; };
  for (int i = 0; i < 20; ++i) {
    for (const int64_t tokens : {64, 200, 100}) {
      budget.ObservePrompts(tokens, seconds(static_cast<double>(tokens)));
    }
  }
  EXPECT_NEAR(budget.Tokens(true), 50, 1);
}

/// With units for tiles a step of 70 tokens takes little longer than one of 35.
TEST(StepBudget, PartsAreWorthWhatEachTakesAnew) {
  for (const double before : {0.001, 0.012}) {
    StepBudget budget({.most = 512, .least = 32, .seconds = 0.01, .spares = true});
    for (int i = 0; i < 20; ++i) {
      for (const int64_t tokens : {35, 70, 140}) {
        budget.ObservePrompts(tokens, before + 0.0003 * static_cast<double>(tokens));
      }
    }
    EXPECT_NEAR(budget.Tokens(true), before < 0.01 ? 32 : 80, 2) << before;
  }
}

/// It makes plans and touches memory.
TEST(StepBudget, TheFirstStepDoesNotCountForLong) {
  StepBudget budget({.most = 512, .least = 32, .seconds = 0.06});
  budget.ObservePrompts(200, 2);
  EXPECT_EQ(budget.Tokens(true), 32) << "it is all that is known";
  budget.ObservePrompts(200, 0.1);
  EXPECT_NEAR(budget.Tokens(true), 120, 1);
  for (const double seconds : {1.0, 0.01}) {
    budget.ObserveAnswers(seconds);
    budget.EndTurn();
  }
  EXPECT_NEAR(budget.Tokens(true), 100, 1);
}

TEST(StepBudget, OneSlowStepChangesLittle) {
  StepBudget budget({.most = 512, .least = 32, .seconds = 0.1});
  for (int i = 0; i < 20; ++i) budget.ObservePrompts(100, 0.1);
  budget.ObservePrompts(100, 60);
  EXPECT_GE(budget.Tokens(true), 75);
}

/// What steps take on a machine of its own clock.
struct Machine {
  double prompt = 0.006, token_of_prompt = 0.00053;
  double answers = 0.005, token_of_answer = 0.0009;

  double Seconds(const std::vector<StepShare>& step) const {
    const double count = static_cast<double>(step.size());
    if (step[0].sequence->pending() == 1) return answers + token_of_answer * count;
    return prompt + token_of_prompt * static_cast<double>(step[0].count);
  }
};

struct Load {
  double gap99 = 0, longest = 0;  ///< seconds from one token to the next
  double first = 0;               ///< mean seconds to the first token
  double rate = 0;                ///< tokens a second of all answers
};

/// Clients who ask again as soon as they are answered, as an engine of the CPU serves them.
class Clients {
 public:
  Clients(int64_t count, double step_seconds)
      : budget_({.most = 512, .least = 32, .seconds = step_seconds, .spares = true}),
        clients_(count) {}

  Load Run(double seconds) {
    for (int64_t i = 0; i < clients_; ++i) Ask();
    while (now_ < seconds) Step();
    std::ranges::sort(gaps_);
    return {.gap99 = gaps_[gaps_.size() * 99 / 100],
            .longest = gaps_.back(),
            .first = std::accumulate(first_.begin(), first_.end(), 0.0) /
                     static_cast<double>(first_.size()),
            .rate = static_cast<double>(gaps_.size() + first_.size()) / now_};
  }

 private:
  static constexpr int64_t kPrompt = 70, kAnswer = 64;

  void Ask() {
    auto sequence = std::make_unique<Sequence>();
    sequence->id = next_++;
    sequence->tokens.resize(kPrompt);
    std::iota(sequence->tokens.begin(), sequence->tokens.end(),
              static_cast<int32_t>(sequence->id) * 1000);
    sequence->most_length = kPrompt + kAnswer - 1;
    seen_[sequence->id] = now_;
    scheduler_.Add(std::move(sequence));
  }

  void Step() {
    scheduler_.set_step_tokens(budget_.Tokens(scheduler_.answering() > 0));
    const std::vector<StepShare> step = scheduler_.Next();
    const double taken = machine_.Seconds(step);
    now_ += taken;
    if (step[0].sequence->pending() == 1) {
      budget_.ObserveAnswers(taken);
      budget_.EndTurn();
    } else {
      budget_.ObservePrompts(step[0].count, taken);
    }
    for (const StepShare& share : step) Accept(*share.sequence, share.count);
  }

  void Accept(Sequence& sequence, int64_t count) {
    scheduler_.Computed(sequence, count);
    if (sequence.pending() > 0) return;
    (sequence.length() == kPrompt ? first_ : gaps_).push_back(now_ - seen_[sequence.id]);
    seen_[sequence.id] = now_;
    if (sequence.length() < sequence.most_length) {
      sequence.tokens.push_back(1);
      return;
    }
    scheduler_.Remove(sequence);
    Ask();
  }

  Machine machine_;
  BlockPool pool_{1024, 1};
  BlockSaver none_;
  Scheduler scheduler_{pool_, {.prompt_tokens = 512, .few_tokens = 16, .tile_tokens = 16}, none_};
  StepBudget budget_;
  int64_t clients_, next_ = 0;
  double now_ = 0;
  std::map<int64_t, double> seen_;  // when a request came, and then its last token
  std::vector<double> gaps_, first_;
};

TEST(StepBudget, AnswersGoOnEvenlyBesidePrompts) {
  const Load whole = Clients(12, 0).Run(60), parts = Clients(12, 0.04).Run(60);
  EXPECT_GT(whole.gap99, 0.058) << "a whole prompt and a step of answers";
  EXPECT_LT(parts.gap99, 0.044);
  EXPECT_LT(parts.longest, 0.05);
  EXPECT_GT(parts.rate, 0.93 * whole.rate);
  EXPECT_LT(parts.first, 1.8 * whole.first) << "the price: a part and a step of answers more";
}

/// Whatever is asked for, prompts get half of the time where answers take long.
TEST(StepBudget, ManyAnswersDoNotHoldUpPrompts) {
  const Load whole = Clients(64, 0).Run(60), parts = Clients(64, 0.001).Run(60);
  EXPECT_LT(parts.first, 1.5 * whole.first);
  EXPECT_GT(parts.rate, 0.95 * whole.rate);
}

}  // namespace
}  // namespace oort
