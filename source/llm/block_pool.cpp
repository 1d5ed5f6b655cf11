// SPDX-License-Identifier: MIT
#include "llm/block_pool.h"

#include <algorithm>
#include <bit>
#include <string>

#include "oort/error.h"

namespace oort {
namespace {

/// Every bit of the result depends on all bits of both.
uint64_t Mix(uint64_t a, uint64_t b) {
  constexpr uint64_t kOdd = 0xd6e8feb86659fd93;
  uint64_t mixed = (a ^ (a >> 32)) * kOdd + b;
  mixed = (mixed ^ (mixed >> 32)) * kOdd;
  return mixed ^ (mixed >> 32);
}

void Expect(bool holds, const std::string& what) {
  if (!holds) throw Error(ErrorCode::kInternal, "block pool: " + what);
}

}  // namespace

BlockPool::BlockPool(int64_t blocks, uint64_t hash_key) : key_(hash_key) {
  if (blocks < 1 || blocks > INT32_MAX) {
    throw Error(ErrorCode::kInvalidArgument, "a BlockPool has from 1 to 2^31 - 1 blocks");
  }
  entries_.resize(static_cast<size_t>(blocks));
  tokens_.resize(entries_.size() * static_cast<size_t>(kBlockTokens));
  buckets_.assign(std::bit_ceil(entries_.size()), kNone);
  mask_ = buckets_.size() - 1;
  // The first blocks are taken first: memory that nobody has used yet is not touched.
  for (int32_t block = 0; block < static_cast<int32_t>(blocks); ++block) {
    Entry& entry = At(block);
    entry.before = block - 1;
    entry.after = block + 1 < blocks ? block + 1 : kNone;
  }
  first_free_ = 0;
  last_free_ = static_cast<int32_t>(blocks - 1);
  free_ = blocks;
}

std::span<int32_t> BlockPool::Places(int32_t block) {
  return std::span(tokens_).subspan(static_cast<size_t>(block) * kBlockTokens, kBlockTokens);
}

std::span<const int32_t> BlockPool::Tokens(int32_t block) const {
  return std::span(tokens_).subspan(static_cast<size_t>(block) * kBlockTokens, At(block).tokens);
}

uint64_t BlockPool::Hash(BlockRef parent, uint64_t name_space,
                         std::span<const int32_t> tokens) const {
  constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;
  const uint64_t place =
      (static_cast<uint64_t>(static_cast<uint32_t>(parent.block)) << 32) | parent.generation;
  uint64_t hash = Mix(key_ ^ place, kOdd ^ name_space);
  for (size_t i = 0; i < tokens.size(); i += 2) {
    const int32_t second = i + 1 < tokens.size() ? tokens[i + 1] : -1;
    const uint64_t pair = (static_cast<uint64_t>(static_cast<uint32_t>(tokens[i])) << 32) |
                          static_cast<uint32_t>(second);
    hash = Mix(hash ^ pair, key_ | 1);
  }
  return Mix(hash ^ key_, kOdd);
}

int32_t BlockPool::Lookup(uint64_t hash, BlockRef parent, uint64_t name_space,
                          std::span<const int32_t> tokens) const {
  for (int32_t block = buckets_[static_cast<size_t>(hash & mask_)]; block != kNone;
       block = At(block).next_in_bucket) {
    const Entry& entry = At(block);
    if (entry.hash == hash && entry.parent == parent && entry.name_space == name_space &&
        std::ranges::equal(Tokens(block), tokens)) {
      return block;
    }
  }
  return kNone;
}

void BlockPool::Unpublish(int32_t block) {
  Entry& entry = At(block);
  int32_t* link = &Bucket(entry.hash);
  while (*link != block) link = &At(*link).next_in_bucket;
  *link = entry.next_in_bucket;
  entry.next_in_bucket = kNone;
  entry.published = false;
}

/// Blocks that nobody can find are taken before those that somebody may find.
void BlockPool::PushFree(int32_t block) {
  Entry& entry = At(block);
  if (entry.published) {
    entry.before = last_free_;
    entry.after = kNone;
    (last_free_ == kNone ? first_free_ : At(last_free_).after) = block;
    last_free_ = block;
    ++cached_;
  } else {
    entry.before = kNone;
    entry.after = first_free_;
    (first_free_ == kNone ? last_free_ : At(first_free_).before) = block;
    first_free_ = block;
  }
  ++free_;
}

void BlockPool::RemoveFree(int32_t block) {
  Entry& entry = At(block);
  (entry.before == kNone ? first_free_ : At(entry.before).after) = entry.after;
  (entry.after == kNone ? last_free_ : At(entry.after).before) = entry.before;
  entry.before = entry.after = kNone;
  --free_;
  if (entry.published) --cached_;
}

std::optional<int32_t> BlockPool::Take() {
  if (first_free_ == kNone) return {};
  const int32_t block = first_free_;
  RemoveFree(block);
  Entry& entry = At(block);
  if (entry.published) Unpublish(block);
  ++entry.generation;
  entry.users = 1;
  return block;
}

void BlockPool::Share(int32_t block) { ++At(block).users; }

void BlockPool::Release(int32_t block) {
  if (--At(block).users == 0) PushFree(block);
}

BlockRef BlockPool::Publish(int32_t block, std::optional<BlockRef> parent, uint64_t name_space,
                            std::span<const int32_t> tokens) {
  const int64_t count = static_cast<int64_t>(tokens.size());
  Expect(count == kBlockTokens || (count > 0 && count < kBlockTokens && At(block).users == 1),
         "a block that is not full is published by its only user");
  const BlockRef before = parent.value_or(BlockRef{});
  const uint64_t hash = Hash(before, name_space, tokens);
  const int32_t found = Lookup(hash, before, name_space, tokens);
  if (found != kNone) return {found, At(found).generation};
  Entry& entry = At(block);
  if (entry.published) Unpublish(block);
  entry.published = true;
  entry.parent = before;
  entry.name_space = name_space;
  entry.hash = hash;
  entry.tokens = static_cast<unsigned char>(count);
  std::ranges::copy(tokens, Places(block).begin());
  entry.next_in_bucket = std::exchange(Bucket(hash), block);
  return {block, entry.generation};
}

std::optional<BlockRef> BlockPool::Find(std::optional<BlockRef> parent, uint64_t name_space,
                                        std::span<const int32_t> tokens) {
  if (static_cast<int64_t>(tokens.size()) != kBlockTokens) return {};
  const BlockRef before = parent.value_or(BlockRef{});
  const int32_t block = Lookup(Hash(before, name_space, tokens), before, name_space, tokens);
  if (block == kNone) return {};
  if (At(block).users == 0) RemoveFree(block);
  ++At(block).users;
  return BlockRef{block, At(block).generation};
}

std::optional<BlockPool::PartialBlock> BlockPool::TakePartial(std::optional<BlockRef> parent,
                                                              uint64_t name_space,
                                                              std::span<const int32_t> tokens) {
  const BlockRef before = parent.value_or(BlockRef{});
  for (size_t count = std::min(tokens.size(), static_cast<size_t>(kBlockTokens - 1)); count > 0;
       --count) {
    const std::span<const int32_t> wanted = tokens.first(count);
    const int32_t block = Lookup(Hash(before, name_space, wanted), before, name_space, wanted);
    if (block == kNone || At(block).users > 0) continue;
    RemoveFree(block);
    Unpublish(block);
    Entry& entry = At(block);
    ++entry.generation;
    entry.users = 1;
    return PartialBlock{block, static_cast<int64_t>(count)};
  }
  return {};
}

void BlockPool::Check() const {
  int64_t listed = 0, listed_cached = 0;
  bool saw_published = false;
  for (int32_t block = first_free_, before = kNone; block != kNone; block = At(block).after) {
    Expect(At(block).users == 0, "a free block has users");
    Expect(At(block).before == before, "the list of free blocks is broken");
    Expect(At(block).published || !saw_published, "an unpublished block stands behind cached ones");
    saw_published = At(block).published;
    listed_cached += saw_published ? 1 : 0;
    Expect(++listed <= blocks(), "the list of free blocks has a loop");
    before = block;
  }
  Expect(listed == free_ && listed_cached == cached_, "the counts of free blocks are wrong");
  int64_t unused = 0, published = 0, indexed = 0;
  for (const Entry& entry : entries_) {
    Expect(entry.users >= 0, "a block was released too often");
    Expect(!entry.published || entry.tokens == kBlockTokens || entry.users == 0,
           "a block that others may find is written to");
    unused += entry.users == 0 ? 1 : 0;
    published += entry.published ? 1 : 0;
  }
  Expect(unused == free_, "a block without users is not free");
  for (int32_t first : buckets_) {
    for (int32_t block = first; block != kNone; block = At(block).next_in_bucket) {
      const Entry& entry = At(block);
      Expect(++indexed <= blocks(), "a bucket has a loop");
      Expect(entry.published && entry.hash == Hash(entry.parent, entry.name_space, Tokens(block)),
             "the index holds a block with other tokens");
    }
  }
  Expect(indexed == published, "a published block is not in the index");
}

SequenceBlocks& SequenceBlocks::operator=(SequenceBlocks&& other) noexcept {
  if (this != &other) {
    Clear();
    pool_ = std::exchange(other.pool_, nullptr);
    blocks_ = std::move(other.blocks_);
    other.blocks_.clear();
  }
  return *this;
}

bool SequenceBlocks::Grow(int64_t tokens) {
  const int64_t needed = KvCache::BlocksFor(tokens) - size();
  if (needed <= 0) return true;
  if (needed > pool_->free_blocks()) return false;
  blocks_.reserve(blocks_.size() + static_cast<size_t>(needed));  // from here on nothing throws
  for (int64_t i = 0; i < needed; ++i) blocks_.push_back(*pool_->Take());
  return true;
}

void SequenceBlocks::Shrink(int64_t tokens) {
  while (size() > KvCache::BlocksFor(tokens)) {
    pool_->Release(blocks_.back());
    blocks_.pop_back();
  }
}

void SequenceBlocks::Append(int32_t block) {
  try {
    blocks_.push_back(block);
  } catch (...) {
    pool_->Release(block);
    throw;
  }
}

SequenceBlocks SequenceBlocks::Fork(int64_t tokens) const {
  SequenceBlocks fork(*pool_);
  const std::span<const int32_t> shared =
      blocks().first(static_cast<size_t>(KvCache::BlocksFor(tokens)));
  fork.blocks_.reserve(shared.size());
  for (int32_t block : shared) {
    pool_->Share(block);
    fork.blocks_.push_back(block);
  }
  return fork;
}

bool SequenceBlocks::IsShared(int64_t index) const {
  return pool_->users(blocks_[static_cast<size_t>(index)]) > 1;
}

std::optional<int32_t> SequenceBlocks::ReplaceShared(int64_t index) {
  const std::optional<int32_t> own = pool_->Take();
  if (!own) return {};
  pool_->Release(std::exchange(blocks_[static_cast<size_t>(index)], *own));
  return own;
}

}  // namespace oort
