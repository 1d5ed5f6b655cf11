// SPDX-License-Identifier: MIT
#include "llm/speculation/ngram_drafter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace oort {
namespace {

std::vector<int32_t> TokensOf(const std::vector<Guess>& guesses) {
  std::vector<int32_t> tokens;
  for (const Guess& guess : guesses) tokens.push_back(guess.token);
  return tokens;
}

std::vector<int32_t> GuessOnce(const std::vector<int32_t>& tokens, int64_t most) {
  NgramDrafter drafter;
  DraftAsk ask{.tokens = tokens, .most = most};
  drafter.Draft({&ask, 1});
  return TokensOf(ask.guesses);
}

TEST(NgramDrafter, GoesOnAsTheTextDidBefore) {
  EXPECT_EQ(GuessOnce({1, 2, 3, 4, 5, 9, 1, 2, 3}, 3), (std::vector<int32_t>{4, 5, 9}));
  // Of two places that match, the one that matches longer; of equal ones the newer.
  EXPECT_EQ(GuessOnce({7, 2, 3, 4, 0, 8, 2, 3, 5, 0, 7, 2, 3}, 1), (std::vector<int32_t>{4}));
  EXPECT_EQ(GuessOnce({7, 2, 3, 4, 0, 7, 2, 3, 5, 0, 7, 2, 3}, 1), (std::vector<int32_t>{5}));
}

TEST(NgramDrafter, GuessesNothingWhereNothingWasThereBefore) {
  EXPECT_TRUE(GuessOnce({1, 2, 3, 4, 5, 6}, 5).empty());
  EXPECT_TRUE(GuessOnce({1}, 5).empty());
  EXPECT_TRUE(GuessOnce({}, 5).empty());
  EXPECT_TRUE(GuessOnce({1, 2, 1, 2}, 0).empty());
}

/// A text that repeats itself goes on beyond its own end.
TEST(NgramDrafter, RepeatsWhatRepeats) {
  EXPECT_EQ(GuessOnce({5, 5, 5, 5}, 4), (std::vector<int32_t>{5, 5, 5, 5}));
  EXPECT_EQ(GuessOnce({1, 2, 3, 1, 2, 3, 1, 2}, 5), (std::vector<int32_t>{3, 1, 2, 3, 1}));
}

TEST(NgramDrafter, IsSurerOfLongerMatches) {
  NgramDrafter drafter;
  const std::vector<int32_t> tokens = {1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5};
  DraftAsk ask{.tokens = tokens, .most = 3};
  drafter.Draft({&ask, 1});
  const std::vector<int32_t> shorter = {4, 5, 6, 7, 8, 1, 4, 5};
  DraftAsk other{.id = 1, .tokens = shorter, .most = 1};
  drafter.Draft({&other, 1});
  ASSERT_EQ(ask.guesses.size(), 3u);
  ASSERT_EQ(other.guesses.size(), 1u);
  EXPECT_GT(ask.guesses[0].sureness, other.guesses[0].sureness);
  EXPECT_GE(ask.guesses[2].sureness, ask.guesses[0].sureness);
  const std::array<double, kSurenessClasses> odds = drafter.UsualOdds();
  EXPECT_TRUE(std::ranges::is_sorted(odds));
}

/// The longest match by looking at every place.
TokenHistory::Match Slowly(std::span<const int32_t> tokens) {
  TokenHistory::Match best;
  for (size_t place = tokens.size() - 1; place >= 2; --place) {
    size_t length = 0;
    while (length < std::min(place, TokenHistory::kLongestMatch) &&
           tokens[place - 1 - length] == tokens[tokens.size() - 1 - length]) {
      ++length;
    }
    if (length >= TokenHistory::kLeastMatch && length > best.length) best = {place, length};
  }
  return best;
}

size_t CountLastPair(std::span<const int32_t> tokens) {
  const std::span<const int32_t> pair = tokens.last(2);
  size_t count = 0;
  for (size_t i = 2; i <= tokens.size(); ++i) {
    count += std::ranges::equal(tokens.subspan(i - 2, 2), pair) ? 1 : 0;
  }
  return count;
}

/// Texts that grow token by token, of few letters and with copies of themselves.
TEST(NgramDrafter, FindsTheLongestMatch) {
  std::mt19937 random(3);
  for (int text = 0; text < 40; ++text) {
    TokenHistory history;
    std::vector<int32_t> tokens = {0, 1};
    const int32_t letters = 6 + static_cast<int32_t>(random() % 30);
    while (tokens.size() < 300) {
      const size_t from = random() % tokens.size(), count = 1 + random() % 12;
      for (size_t i = 0; i < count; ++i) {
        const bool copies = text % 2 == 0 && count > 4;
        tokens.push_back(copies ? tokens[from + i]
                                : static_cast<int32_t>(random() % static_cast<uint32_t>(letters)));
        if (random() % 3 == 0) continue;  // it sees some of them together
        const TokenHistory::Match found = history.Find(tokens), want = Slowly(tokens);
        if (CountLastPair(tokens) > 60) continue;  // not all of these are looked at
        ASSERT_EQ(found.length, want.length) << "text " << text << " of " << tokens.size();
        if (want.length > 0) {
          ASSERT_EQ(found.next, want.next);
        }
      }
    }
  }
}

TEST(NgramDrafter, ForgetsWhatIsTooFarBack) {
  std::vector<int32_t> tokens = {1, 2, 3, 4};
  for (size_t i = 0; tokens.size() < TokenHistory::kMostTokens - 2; ++i) {
    tokens.push_back(static_cast<int32_t>(1000 + i));
  }
  tokens.insert(tokens.end(), {1, 2});
  TokenHistory history;
  EXPECT_EQ(history.Find(tokens).next, 2u);
  tokens.insert(tokens.end(), {7, 8, 9, 1, 2, 3});
  EXPECT_EQ(history.Find(tokens).length, 0u) << "2 3 is as far back as nothing is found any more";
  tokens.insert(tokens.end(), {7, 8});
  EXPECT_EQ(history.Find(tokens).length, 2u);
}

TEST(NgramDrafter, FarTextsTakeNoTimeToSpeakOf) {
  std::vector<int32_t> tokens(200'000, 5);  // every place matches every other
  TokenHistory history;
  for (int i = 0; i < 2000; ++i) {
    EXPECT_EQ(history.Find(tokens).length, TokenHistory::kLongestMatch);
    tokens.push_back(5);
  }
}

}  // namespace
}  // namespace oort
