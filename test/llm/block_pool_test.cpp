// SPDX-License-Identifier: MIT
#include "llm/block_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <tuple>
#include <vector>

#include "kit/naive_block_pool.h"
#include "kit/sanitized.h"

namespace oort {
namespace {

using testing::NaivePool;

constexpr size_t kTokensOfBlock = static_cast<size_t>(BlockPool::kBlockTokens);

/// Tokens that say which of a few contents they are.
std::vector<int32_t> Content(int32_t kind) {
  std::vector<int32_t> tokens(kTokensOfBlock);
  for (size_t i = 0; i < kTokensOfBlock; ++i) tokens[i] = kind * 100 + static_cast<int32_t>(i);
  return tokens;
}

TEST(BlockPool, GivesEveryBlockOnce) {
  BlockPool pool(3, 7);
  EXPECT_EQ(*pool.Take(), 0);
  EXPECT_EQ(*pool.Take(), 1);
  EXPECT_EQ(*pool.Take(), 2);
  EXPECT_FALSE(pool.Take());
  pool.Release(1);
  EXPECT_EQ(pool.free_blocks(), 1);
  EXPECT_EQ(*pool.Take(), 1);
  pool.Check();
}

TEST(BlockPool, FindsWhatWasPublishedAlsoBehindItsLastUser) {
  BlockPool pool(4, 7);
  const int32_t first = *pool.Take(), second = *pool.Take();
  const BlockRef parent = pool.Publish(first, {}, 0, Content(1));
  pool.Publish(second, parent, 0, Content(2));
  pool.Release(second);
  pool.Release(first);
  EXPECT_EQ(pool.cached_blocks(), 2);
  const std::optional<BlockRef> found = pool.Find({}, 0, Content(1));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->block, first);
  EXPECT_EQ(pool.users(first), 1);
  const std::optional<BlockRef> behind = pool.Find(found, 0, Content(2));
  ASSERT_TRUE(behind);
  EXPECT_EQ(behind->block, second);
  EXPECT_FALSE(pool.Find({}, 0, Content(2))) << "the same tokens at another place";
  EXPECT_FALSE(pool.Find({}, 1, Content(1))) << "another name space";
  pool.Check();
}

TEST(BlockPool, EvictsTheLongestUnusedAndTheEndBeforeTheBeginning) {
  BlockPool pool(4, 7);
  SequenceBlocks old(pool), young(pool);
  ASSERT_TRUE(old.Grow(32) && young.Grow(32));
  const BlockRef a = pool.Publish(old.blocks()[0], {}, 0, Content(1));
  pool.Publish(old.blocks()[1], a, 0, Content(2));
  const BlockRef b = pool.Publish(young.blocks()[0], {}, 0, Content(3));
  pool.Publish(young.blocks()[1], b, 0, Content(4));
  old.Clear();
  young.Clear();
  SequenceBlocks next(pool);
  ASSERT_TRUE(next.Grow(16));
  EXPECT_FALSE(pool.Find(a, 0, Content(2))) << "the end of the old sequence went first";
  EXPECT_TRUE(pool.Find({}, 0, Content(1)));
  EXPECT_TRUE(pool.Find(b, 0, Content(4)));
}

TEST(BlockPool, ChildrenOfAnEvictedBlockAreNotFoundBehindItsSuccessor) {
  BlockPool pool(2, 7);
  const int32_t parent = *pool.Take(), child = *pool.Take();
  const BlockRef old = pool.Publish(parent, {}, 0, Content(1));
  pool.Publish(child, old, 0, Content(2));
  pool.Release(parent);
  EXPECT_EQ(*pool.Take(), parent);
  const BlockRef other = pool.Publish(parent, {}, 0, Content(5));
  EXPECT_FALSE(pool.Find(other, 0, Content(2)));
  EXPECT_FALSE(pool.Find({}, 0, Content(1)));
}

TEST(BlockPool, TokensThatWerePublishedTwiceHaveOnePlace) {
  BlockPool pool(4, 7);
  const int32_t first = *pool.Take(), second = *pool.Take(), third = *pool.Take();
  const BlockRef ref = pool.Publish(first, {}, 0, Content(1));
  const BlockRef again = pool.Publish(second, {}, 0, Content(1));
  EXPECT_EQ(ref, again);
  pool.Publish(third, again, 0, Content(2));
  EXPECT_TRUE(pool.Find(ref, 0, Content(2)));
  pool.Release(second);
  EXPECT_EQ(pool.cached_blocks(), 0) << "the copy is found by nobody";
}

TEST(BlockPool, TheFullestBlockThatIsNotFullIsTakenOnce) {
  BlockPool pool(4, 7);
  const std::vector<int32_t> tokens = Content(1);
  const std::span<const int32_t> all = tokens;
  for (const size_t count : {size_t{3}, size_t{9}}) {
    const int32_t block = *pool.Take();
    pool.Publish(block, {}, 0, all.first(count));
    pool.Release(block);
  }
  EXPECT_EQ(pool.cached_blocks(), 2);
  EXPECT_FALSE(pool.Find({}, 0, tokens)) << "they are not full";
  EXPECT_FALSE(pool.TakePartial({}, 1, tokens)) << "another name space";
  EXPECT_FALSE(pool.TakePartial({}, 0, Content(2)));
  EXPECT_EQ(pool.TakePartial({}, 0, tokens)->tokens, 9);
  EXPECT_EQ(pool.TakePartial({}, 0, all.first(5))->tokens, 3);
  EXPECT_FALSE(pool.TakePartial({}, 0, tokens));
  EXPECT_EQ(pool.used_blocks(), 2);
  pool.Check();
}

TEST(SequenceBlocks, AForkSharesAndWritesToItsOwn) {
  BlockPool pool(4, 7);
  SequenceBlocks sequence(pool);
  ASSERT_TRUE(sequence.Grow(20));
  SequenceBlocks fork = sequence.Fork(20);
  EXPECT_EQ(pool.used_blocks(), 2);
  EXPECT_TRUE(fork.IsShared(1));
  const int32_t before = fork.blocks()[1];
  EXPECT_NE(*fork.ReplaceShared(1), before);
  EXPECT_FALSE(fork.IsShared(1));
  EXPECT_FALSE(sequence.IsShared(1));
  EXPECT_EQ(pool.used_blocks(), 3);
  EXPECT_FALSE(fork.Grow(16 * 4)) << "two more are needed, one is left";
  EXPECT_EQ(fork.size(), 2);
  sequence = std::move(fork);
  EXPECT_EQ(pool.used_blocks(), 2);
  sequence.Clear();
  EXPECT_EQ(pool.free_blocks(), 4);
  pool.Check();
}

/// A million random operations: after each, both pools say the same.
TEST(BlockPool, AgreesWithANaiveModelOverAMillionOperations) {
  constexpr int32_t kBlocks = 24;
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  BlockPool pool(kBlocks, random());
  NaivePool naive(kBlocks);
  std::vector<int32_t> held;  // one entry for each use
  std::vector<BlockRef> refs = {BlockRef{}};
  constexpr int kSteps = testing::IsSanitized() ? 100'000 : 1'000'000;
  for (int step = 0; step < kSteps; ++step) {
    const size_t kind = below(12);
    const BlockRef parent = refs[below(refs.size())];
    const std::optional<BlockRef> behind =
        parent == BlockRef{} ? std::nullopt : std::optional(parent);
    const uint64_t name_space = below(2);
    const std::vector<int32_t> tokens = Content(static_cast<int32_t>(below(5)));
    const NaivePool::Known known{{parent.block, parent.generation}, name_space, tokens};
    if (kind < 3) {
      const std::optional<int32_t> block = pool.Take();
      ASSERT_EQ(block, naive.Take());
      if (block) held.push_back(*block);
    } else if (kind < 4 && !held.empty()) {
      held.push_back(held[below(held.size())]);
      pool.Share(held.back());
      ++naive.users[static_cast<size_t>(held.back())];
    } else if (kind < 7 && !held.empty()) {
      std::swap(held[below(held.size())], held.back());
      pool.Release(held.back());
      naive.Release(held.back());
      held.pop_back();
    } else if (kind < 8 && !held.empty()) {
      const int32_t block = held[below(held.size())];
      if (naive.published.contains(block)) continue;  // what is published keeps its tokens
      const BlockRef ref = pool.Publish(block, behind, name_space, tokens);
      ASSERT_EQ(ref.block, naive.Publish(block, known));
      ASSERT_EQ(std::pair(ref.block, ref.generation), naive.Ref(ref.block));
      refs.push_back(ref);
      if (refs.size() > 64) refs.erase(refs.begin() + 1);
    } else if (kind == 8 && !held.empty()) {
      std::swap(held[below(held.size())], held.back());
      const int32_t block = held.back();
      if (naive.published.contains(block) || naive.users[static_cast<size_t>(block)] != 1) continue;
      NaivePool::Known few = known;
      few.tokens.resize(1 + below(15));
      pool.Publish(block, behind, name_space, few.tokens);
      naive.Publish(block, few);
      pool.Release(block);
      naive.Release(block);
      held.pop_back();
    } else if (kind == 9) {
      const auto found = pool.TakePartial(behind, name_space, tokens);
      const std::optional<int32_t> block = naive.TakePartial(known);
      ASSERT_EQ(found.has_value(), block.has_value());
      if (!found) continue;
      ASSERT_EQ(found->block, *block);
      held.push_back(*block);
    } else {
      const std::optional<BlockRef> found = pool.Find(behind, name_space, tokens);
      const std::optional<int32_t> block = naive.Find(known);
      ASSERT_EQ(found.has_value(), block.has_value());
      if (!found) continue;
      ASSERT_EQ(std::pair(found->block, found->generation), naive.Ref(*block));
      held.push_back(*block);
    }
    ASSERT_EQ(pool.free_blocks(), static_cast<int64_t>(naive.unknown.size() + naive.cached.size()));
    ASSERT_EQ(pool.cached_blocks(), static_cast<int64_t>(naive.cached.size()));
    ASSERT_EQ(pool.users(static_cast<int32_t>(below(kBlocks))) < 0, false);
    if (step % 997 == 0) pool.Check();
  }
  for (int32_t block : held) pool.Release(block);
  EXPECT_EQ(pool.free_blocks(), kBlocks);
  pool.Check();
}

}  // namespace
}  // namespace oort
