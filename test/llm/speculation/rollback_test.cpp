// SPDX-License-Identifier: MIT
// Guesses that were wrong leave the cache as if they had never been there.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "kit/sanitized.h"
#include "llm/scheduler.h"

namespace oort {
namespace {

constexpr int64_t kSlots = BlockPool::kBlockTokens;

std::unique_ptr<Sequence> NewSequence(int64_t id, std::vector<int32_t> prompt, int64_t most) {
  auto sequence = std::make_unique<Sequence>();
  sequence->id = id;
  sequence->tokens = std::move(prompt);
  sequence->most_length = most;
  return sequence;
}

TEST(Rollback, GivesBlocksBack) {
  BlockPool pool(4, 1);
  BlockSaver none;
  Scheduler scheduler(pool, {}, none);
  Sequence& sequence = scheduler.Add(NewSequence(0, std::vector<int32_t>(14, 3), 60));
  ASSERT_EQ(scheduler.Next().size(), 1u);
  scheduler.Computed(sequence, 14);
  sequence.tokens.push_back(4);
  ASSERT_EQ(scheduler.Next().size(), 1u);
  EXPECT_EQ(sequence.cached.blocks.size(), 1);
  EXPECT_EQ(scheduler.MakeRoomForGuesses(sequence, 20), 20);
  EXPECT_EQ(sequence.cached.blocks.size(), 3);
  sequence.cached.length = 14 + 21;  // as the step leaves it
  scheduler.Computed(sequence, 1);
  sequence.tokens.push_back(5);
  scheduler.Rollback(sequence);
  EXPECT_EQ(sequence.cached.blocks.size(), 1);
  EXPECT_EQ(sequence.cached.length, 15);
  scheduler.Check();
  // No more than the sequence may come to, nor than there is.
  ASSERT_EQ(scheduler.Next().size(), 1u);
  EXPECT_EQ(scheduler.MakeRoomForGuesses(sequence, 1000), 60 - 16);
  scheduler.Rollback(sequence);
  std::vector<int32_t> taken;
  while (const std::optional<int32_t> block = pool.Take()) taken.push_back(*block);
  EXPECT_EQ(scheduler.MakeRoomForGuesses(sequence, 1000), 0);
  pool.Release(taken.back());
  EXPECT_EQ(scheduler.MakeRoomForGuesses(sequence, 1000), kSlots);
  taken.pop_back();
  for (const int32_t block : taken) pool.Release(block);
  scheduler.Rollback(sequence);
  scheduler.Check();
}

/// Steps with guesses, of which some are right, over a cache whose slots say which token was
/// written into them last.
class FakeEngine {
 public:
  explicit FakeEngine(uint32_t seed)
      : random_(seed),
        pool_(6 + static_cast<int64_t>(random_() % 20), seed),
        scheduler_(pool_, {.step_tokens = 40, .prompt_tokens = 24, .reserve = random_() % 3 == 0},
                   none_),
        slots_(static_cast<size_t>(pool_.blocks() * kSlots), -1) {}

  void Run(int steps) {
    for (int step = 0; step < steps; ++step) {
      if (random_() % 4 == 0 && live_.size() < 8) Submit();
      if (random_() % 20 == 0 && !live_.empty()) End(*live_.begin()->second);
      for (const StepShare& share : scheduler_.Next()) Compute(share);
      scheduler_.Check();
    }
    while (!live_.empty()) End(*live_.begin()->second);
    scheduler_.Check();
    EXPECT_EQ(pool_.used_blocks(), 0);
    EXPECT_GT(rejected_, 0);
  }
  int64_t reused() const { return reused_; }

 private:
  /// What comes behind so many tokens: the same for all, so that prefixes are shared.
  static int32_t Answer(int64_t place) { return static_cast<int32_t>(place % 11 == 0 ? 1 : place); }

  void Submit() {
    const int64_t most = 2 + static_cast<int64_t>(random_() % (6 * kSlots - 2));
    std::vector<int32_t> prompt;
    const int64_t length = 1 + static_cast<int64_t>(random_() % static_cast<uint32_t>(most - 1));
    for (int64_t i = 0; i < length; ++i) prompt.push_back(Answer(i));
    if (random_() % 4 == 0) prompt.back() = -7;
    auto sequence = NewSequence(next_++, std::move(prompt), most);
    live_[sequence->id] = sequence.get();
    scheduler_.Add(std::move(sequence));
  }
  void End(Sequence& sequence) {
    reused_ += sequence.reused;
    live_.erase(sequence.id);
    scheduler_.Remove(sequence);
  }
  int32_t& Slot(const Sequence& sequence, int64_t place) {
    const int32_t block = sequence.cached.blocks.blocks()[static_cast<size_t>(place / kSlots)];
    return slots_[static_cast<size_t>(block * kSlots + place % kSlots)];
  }
  /// As attention would read it.
  void ExpectHeld(const Sequence& sequence) {
    for (int64_t i = 0; i < sequence.computed; ++i) {
      ASSERT_EQ(Slot(sequence, i), sequence.tokens[static_cast<size_t>(i)])
          << "place " << i << " of " << sequence.id;
    }
  }

  void Compute(const StepShare& share) {
    Sequence& sequence = *share.sequence;
    ExpectHeld(sequence);
    std::vector<int32_t> written(sequence.tokens.begin() + sequence.computed,
                                 sequence.tokens.begin() + sequence.computed + share.count);
    const bool answers = share.count == sequence.pending();
    int64_t guesses = 0;
    if (sequence.pending() == 1) {
      guesses = scheduler_.MakeRoomForGuesses(sequence, static_cast<int64_t>(random_() % 20));
      for (int64_t i = 0; i < guesses; ++i) {
        const bool right = random_() % 8 != 0;
        written.push_back(right ? Answer(sequence.length() + i) : -9);
      }
    }
    for (size_t i = 0; i < written.size(); ++i) {
      Slot(sequence, sequence.computed + static_cast<int64_t>(i)) = written[i];
    }
    sequence.cached.length += static_cast<int64_t>(written.size());
    scheduler_.Computed(sequence, share.count);
    for (size_t i = static_cast<size_t>(share.count); answers; ++i) {
      if (sequence.length() >= sequence.most_length) return End(sequence);
      sequence.tokens.push_back(Answer(sequence.length()));
      if (i == written.size()) break;
      if (written[i] != sequence.tokens.back()) {
        rejected_ += static_cast<int64_t>(written.size() - i);
        break;
      }
      scheduler_.Computed(sequence, 1);
    }
    scheduler_.Rollback(sequence);
    EXPECT_EQ(sequence.cached.blocks.size(), KvCache::BlocksFor(sequence.computed));
  }

  std::mt19937 random_;
  BlockPool pool_;
  BlockSaver none_;
  Scheduler scheduler_;
  std::vector<int32_t> slots_;
  std::map<int64_t, Sequence*> live_;
  int64_t next_ = 0, rejected_ = 0, reused_ = 0;
};

TEST(Rollback, SequencesHoldTheirOwnTokensWhateverWasGuessed) {
  constexpr uint32_t kCases = testing::IsSanitized() ? 10 : 60;
  int64_t reused = 0;
  for (uint32_t seed = 0; seed < kCases && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    FakeEngine engine(seed);
    engine.Run(300);
    reused += engine.reused();
  }
  EXPECT_GT(reused, 0);
}

}  // namespace
}  // namespace oort
