// SPDX-License-Identifier: MIT
#include "llm/speculation/guess_planner.h"

#include <gtest/gtest.h>

#include <numeric>

namespace oort {
namespace {

/// Steps that take so long for each row beyond the first.
StepCosts Costs(double per_row) {
  StepCosts costs(0.1);
  for (int times = 0; times < 2; ++times) {
    for (int64_t rows = 1; rows <= kMostCheckedRows; ++rows) {
      costs.Observe(rows, 1 + per_row * static_cast<double>(rows - 1));
    }
  }
  return costs;
}

TEST(GuessPlanner, LearnsHowLongStepsTake) {
  StepCosts costs(0.1);
  EXPECT_FALSE(costs.is_known());
  EXPECT_EQ(costs.Seconds(4), 0);
  costs.Observe(1, 100);  // the first of its size does not count
  EXPECT_FALSE(costs.is_known());
  costs.Observe(1, 2);
  EXPECT_EQ(costs.Seconds(1), 2);
  EXPECT_DOUBLE_EQ(costs.Seconds(6), 3);
  costs.Observe(5, 100);
  costs.Observe(5, 6);
  EXPECT_DOUBLE_EQ(costs.Seconds(3), 4);
  // Beyond what is known rows may cost less, and never more than is usual until they are tried.
  EXPECT_DOUBLE_EQ(costs.Seconds(9), 6.8);
  // One that was interrupted counts as twice as long at most.
  costs.Observe(5, 1e9);
  EXPECT_LT(costs.Seconds(5), 7.5);
  // When steps of one size become slower, those of others are expected to, too, but less.
  const double ratio = costs.Seconds(5) / costs.Seconds(1);
  for (int i = 0; i < 20; ++i) costs.Observe(1, 4);
  EXPECT_GT(costs.Seconds(5), 7);
  EXPECT_LT(costs.Seconds(5) / costs.Seconds(1), ratio);
}

TEST(GuessPlanner, ChecksWhatIsLikelyAndCheap) {
  const std::vector<std::vector<double>> likely = {{0.9, 0.8, 0.7, 0.6, 0.5}};
  EXPECT_EQ(PlanGuesses(likely, 16, Costs(0.01)), std::vector<int64_t>{5});
  EXPECT_EQ(PlanGuesses(likely, 4, Costs(0.01)), std::vector<int64_t>{3});
  EXPECT_EQ(PlanGuesses(likely, 1, Costs(0.01)), std::vector<int64_t>{0});
  // A row that costs a step is worth nothing.
  EXPECT_EQ(PlanGuesses(likely, 16, Costs(1)), std::vector<int64_t>{0});
  EXPECT_EQ(PlanGuesses(std::vector<std::vector<double>>{{0.05, 0.001}}, 16, Costs(0.1)),
            std::vector<int64_t>{0});
}

TEST(GuessPlanner, SharesRowsOutToTheLikeliest) {
  const std::vector<std::vector<double>> chances = {{0.5, 0.2}, {}, {0.9, 0.8, 0.7}, {0.6}};
  const StepCosts costs = Costs(0.001);
  EXPECT_EQ(PlanGuesses(chances, 7, costs), (std::vector<int64_t>{0, 0, 3, 0}));
  EXPECT_EQ(PlanGuesses(chances, 8, costs), (std::vector<int64_t>{0, 0, 3, 1}));
  EXPECT_EQ(PlanGuesses(chances, 16, costs), (std::vector<int64_t>{2, 0, 3, 1}));
  // As many answers as rows leave none for guesses.
  const std::vector<std::vector<double>> many(16, std::vector<double>{0.9});
  const std::vector<int64_t> planned = PlanGuesses(many, 16, costs);
  EXPECT_EQ(std::accumulate(planned.begin(), planned.end(), int64_t{0}), 0);
}

TEST(GuessPlanner, CountsWhatGuessingTakes) {
  const StepCosts costs = Costs(0.05);
  EXPECT_GE(PlanRound(0.9, 1, 0.1, 11, costs).guesses, 4);
  EXPECT_EQ(PlanRound(0.9, 1, 0.95, 11, costs).guesses, 0);
  EXPECT_EQ(PlanRound(0.9, 1, 0.95, 11, costs).gain, 0);
  EXPECT_EQ(PlanRound(0.1, 1, 0.1, 11, costs).guesses, 0);
  const RoundPlan less = PlanRound(0.6, 1, 0.1, 11, costs),
                  more = PlanRound(0.95, 1, 0.1, 11, costs);
  EXPECT_LE(less.guesses, more.guesses);
  EXPECT_LT(less.gain, more.gain);
  // Six tokens of chance 1 in steps of one row take 6; as five guesses 5 * 0.1 + 1.25.
  EXPECT_NEAR(PlanRound(1, 1, 0.1, 5, costs).gain, 1 - 1.75 / 6, 1e-9);
}

TEST(GuessPlanner, LosesNoMoreThanALittle) {
  GuessLedger ledger;
  EXPECT_TRUE(ledger.Allows(0));
  EXPECT_FALSE(ledger.Allows(0.001));
  for (int i = 0; i < 100; ++i) ledger.Observe(1, 1);
  EXPECT_TRUE(ledger.Allows(1.9));
  EXPECT_FALSE(ledger.Allows(2.1));
  ledger.Observe(3, 1);  // a step of wrong guesses
  EXPECT_TRUE(ledger.Allows(0));
  EXPECT_FALSE(ledger.Allows(0.1));
  ledger.Observe(3, 1);
  EXPECT_FALSE(ledger.Allows(0));
  for (int i = 0; i < 200; ++i) ledger.Observe(1, 1);
  EXPECT_TRUE(ledger.Allows(0));
  // What was gained is not lost again without bound.
  for (int i = 0; i < 200; ++i) ledger.Observe(1, 4);
  EXPECT_TRUE(ledger.Allows(19));
  EXPECT_FALSE(ledger.Allows(21));
}

TEST(GuessPlanner, LearnsHowOftenGuessesAreRight) {
  GuessOdds odds({0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5});
  for (int i = 0; i < 100; ++i) {
    odds.Observe(0, false, 0.125);
    odds.Observe(7, true, 0.125);
  }
  EXPECT_LT(odds.Of(0), 0.01);
  EXPECT_EQ(odds.Of(3), 0.5);
  EXPECT_GT(odds.Of(7), 0.99);
}

}  // namespace
}  // namespace oort
