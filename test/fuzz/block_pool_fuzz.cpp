// SPDX-License-Identifier: MIT
// Any bytes as operations on a BlockPool and on sequences that own blocks of it: it says what a
// naive pool says, and nothing is lost.
#include <cstdlib>
#include <deque>
#include <string_view>

#include "harness.h"
#include "llm/block_pool.h"
#include "test/kit/naive_block_pool.h"

namespace {

using oort::BlockPool;
using oort::BlockRef;
using oort::SequenceBlocks;
using oort::testing::NaivePool;

constexpr int32_t kBlocks = 9;

void Expect(bool holds) {
  if (!holds) std::abort();
}

class Operations {
 public:
  explicit Operations(std::string_view bytes) : bytes_(bytes) {}
  bool left() const { return !bytes_.empty(); }
  size_t Below(size_t n) {
    if (bytes_.empty()) return 0;
    const size_t value = static_cast<unsigned char>(bytes_.front());
    bytes_.remove_prefix(1);
    return value % n;
  }

 private:
  std::string_view bytes_;
};

/// Takes, releases, publishes and finds blocks one by one.
void TryPool(Operations operations) {
  BlockPool pool(kBlocks, operations.Below(256));
  NaivePool naive(kBlocks);
  std::vector<int32_t> held;
  std::vector<BlockRef> refs = {BlockRef{}};
  while (operations.left()) {
    const size_t kind = operations.Below(7);
    const BlockRef parent = refs[operations.Below(refs.size())];
    const std::optional<BlockRef> behind =
        parent == BlockRef{} ? std::nullopt : std::optional(parent);
    const uint64_t name_space = operations.Below(2);
    const std::vector<int32_t> tokens(static_cast<size_t>(BlockPool::kBlockTokens),
                                      static_cast<int32_t>(operations.Below(3)));
    const NaivePool::Known known{{parent.block, parent.generation}, name_space, tokens};
    if (kind == 0) {
      const std::optional<int32_t> block = pool.Take();
      Expect(block == naive.Take());
      if (block) held.push_back(*block);
    } else if (kind == 1 && !held.empty()) {
      held.push_back(held[operations.Below(held.size())]);
      pool.Share(held.back());
      ++naive.users[static_cast<size_t>(held.back())];
    } else if (kind == 2 && !held.empty()) {
      std::swap(held[operations.Below(held.size())], held.back());
      pool.Release(held.back());
      naive.Release(held.back());
      held.pop_back();
    } else if (kind == 3 && !held.empty()) {
      const int32_t block = held[operations.Below(held.size())];
      if (naive.published.contains(block)) continue;
      const BlockRef ref = pool.Publish(block, behind, name_space, tokens);
      Expect(ref.block == naive.Publish(block, known));
      Expect(std::pair(ref.block, ref.generation) == naive.Ref(ref.block));
      refs.push_back(ref);
    } else if (kind == 4 && !held.empty()) {
      std::swap(held[operations.Below(held.size())], held.back());
      const int32_t block = held.back();
      if (naive.published.contains(block) || naive.users[static_cast<size_t>(block)] != 1) continue;
      NaivePool::Known few = known;
      few.tokens.resize(1 + operations.Below(15));
      pool.Publish(block, behind, name_space, few.tokens);
      naive.Publish(block, few);
      pool.Release(block);
      naive.Release(block);
      held.pop_back();
    } else if (kind == 5) {
      const auto found = pool.TakePartial(behind, name_space, tokens);
      Expect((found ? std::optional(found->block) : std::nullopt) == naive.TakePartial(known));
      if (found) held.push_back(found->block);
    } else {
      const std::optional<BlockRef> found = pool.Find(behind, name_space, tokens);
      Expect((found ? std::optional(found->block) : std::nullopt) == naive.Find(known));
      if (found) held.push_back(found->block);
    }
    Expect(pool.free_blocks() == static_cast<int64_t>(naive.unknown.size() + naive.cached.size()));
    Expect(pool.cached_blocks() == static_cast<int64_t>(naive.cached.size()));
    pool.Check();
  }
  for (const int32_t block : held) pool.Release(block);
  Expect(pool.free_blocks() == kBlocks);
}

/// Sequences grow, shrink, fork and end: each block has as many users as sequences hold it.
void TrySequences(Operations operations) {
  BlockPool pool(kBlocks, 1);
  std::deque<SequenceBlocks> sequences;
  while (operations.left()) {
    const size_t kind = operations.Below(6);
    const int64_t tokens = static_cast<int64_t>(operations.Below(128));
    if (kind == 0 || sequences.empty()) {
      sequences.emplace_back(pool);
      continue;
    }
    const size_t which = operations.Below(sequences.size());
    SequenceBlocks& one = sequences[which];
    if (kind == 1) {
      const int64_t before = one.size();
      const bool grew = one.Grow(tokens);
      Expect(one.size() == (grew ? std::max(before, oort::KvCache::BlocksFor(tokens)) : before));
    } else if (kind == 2) {
      one.Shrink(tokens);
    } else if (kind == 3) {
      sequences.push_back(one.Fork(std::min(tokens, one.size() * BlockPool::kBlockTokens)));
    } else if (kind == 4 && one.size() > 0) {
      const int64_t last = one.size() - 1;
      if (one.IsShared(last) && one.ReplaceShared(last)) Expect(!one.IsShared(last));
    } else if (kind == 5) {
      sequences.erase(sequences.begin() + static_cast<ptrdiff_t>(which));
    }
    std::vector<int32_t> users(kBlocks);
    for (const SequenceBlocks& sequence : sequences) {
      for (const int32_t block : sequence.blocks()) ++users[static_cast<size_t>(block)];
    }
    for (int32_t block = 0; block < kBlocks; ++block) {
      Expect(pool.users(block) == users[static_cast<size_t>(block)]);
    }
    pool.Check();
  }
  sequences.clear();
  Expect(pool.free_blocks() == kBlocks);
}

}  // namespace

oort::fuzz::Target oort::fuzz::MakeTarget() { return {}; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), std::min<size_t>(size, 4096));
  TryPool(Operations(bytes));
  TrySequences(Operations(bytes));
  oort::fuzz::CountWhole();
  return 0;
}
