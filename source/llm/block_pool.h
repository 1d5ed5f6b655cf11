// SPDX-License-Identifier: MIT
// Who uses which block of a paged key-value cache, and which blocks hold the beginning of a prompt.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "llm/kept_state.h"
#include "oort/kv_cache.h"

namespace oort {

class PicturePlaces;  // llm/picture_places.h

/// A block with the tokens that it holds now. Every time the block is taken for other tokens its
/// generation grows, so that an old reference never matches them.
struct BlockRef {
  int32_t block = -1;
  uint32_t generation = 0;
  friend bool operator==(const BlockRef&, const BlockRef&) = default;
};

/// Counts the users of each block and finds blocks by the tokens in them. Blocks without users that
/// hold published tokens stay findable until they are taken for others, the longest unused first:
/// what finished requests read is a cache of prefixes that costs nobody room. Nothing allocates
/// after the constructor. Thread contract: one thread at a time.
class BlockPool {
 public:
  static constexpr int64_t kBlockTokens = KvCache::kBlockTokens;

  /// `hash_key` is random in a server: who knows it can choose prompts that all hash alike, which
  /// makes look-ups slow. Answers never depend on it: tokens are compared.
  BlockPool(int64_t blocks, uint64_t hash_key);

  /// A block with one user, whose old tokens nobody finds any more; none where all have users.
  std::optional<int32_t> Take();
  void Share(int32_t block);
  /// Takes one user away. The block that was released first is evicted first, so a sequence
  /// releases its last block first: the beginning of a prompt outlives its end.
  void Release(int32_t block);

  /// Says that a block with users holds these tokens, which follow those of `parent` (none at the
  /// beginning), of one name space: requests of different name spaces find nothing of each other.
  /// Returns the block under which these tokens are found, the parent of what follows: another
  /// one where they were published before.
  /// A block that is not full has one user, who releases it next.
  BlockRef Publish(int32_t block, std::optional<BlockRef> parent, uint64_t name_space,
                   std::span<const int32_t> tokens);
  /// The block that holds these tokens behind `parent`, with one user more.
  std::optional<BlockRef> Find(std::optional<BlockRef> parent, uint64_t name_space,
                               std::span<const int32_t> tokens);
  /// A block that was published when it was not full, with one user: who takes it writes on behind
  /// its tokens, so nobody else finds it any more.
  struct PartialBlock {
    int32_t block = -1;
    int64_t tokens = 0;
  };
  /// Of those behind `parent` that hold the first of these tokens, the one with the most.
  std::optional<PartialBlock> TakePartial(std::optional<BlockRef> parent, uint64_t name_space,
                                          std::span<const int32_t> tokens);

  int64_t blocks() const { return static_cast<int64_t>(entries_.size()); }
  /// Blocks without users, published or not: Take can have all of them.
  int64_t free_blocks() const { return free_; }
  /// Of these, the ones that Find and TakePartial still find.
  int64_t cached_blocks() const { return cached_; }
  int64_t used_blocks() const { return blocks() - free_; }
  int32_t users(int32_t block) const { return At(block).users; }

  /// Throws kInternal where lists, counts and the index contradict each other. For tests.
  void Check() const;

 private:
  static constexpr int32_t kNone = -1;

  struct Entry {
    int32_t users = 0;
    uint32_t generation = 0;
    bool published = false;
    unsigned char tokens = 0;  // published ones
    BlockRef parent;
    uint64_t name_space = 0;
    uint64_t hash = 0;
    int32_t next_in_bucket = kNone;
    int32_t before = kNone, after = kNone;  // in the list of free blocks
  };

  Entry& At(int32_t block) { return entries_[static_cast<size_t>(block)]; }
  const Entry& At(int32_t block) const { return entries_[static_cast<size_t>(block)]; }
  int32_t& Bucket(uint64_t hash) { return buckets_[static_cast<size_t>(hash & mask_)]; }
  std::span<int32_t> Places(int32_t block);
  std::span<const int32_t> Tokens(int32_t block) const;
  uint64_t Hash(BlockRef parent, uint64_t name_space, std::span<const int32_t> tokens) const;
  int32_t Lookup(uint64_t hash, BlockRef parent, uint64_t name_space,
                 std::span<const int32_t> tokens) const;
  void Unpublish(int32_t block);
  void PushFree(int32_t block);
  void RemoveFree(int32_t block);

  uint64_t key_;
  uint64_t mask_ = 0;
  std::vector<Entry> entries_;
  std::vector<int32_t> buckets_;  // the first published block of each, or kNone
  std::vector<int32_t> tokens_;   // kBlockTokens of each block
  int32_t first_free_ = kNone, last_free_ = kNone;
  int64_t free_ = 0, cached_ = 0;
};

/// The blocks of one sequence, which go back to their pool with it: none is lost, whatever throws.
class SequenceBlocks {
 public:
  SequenceBlocks() = default;
  explicit SequenceBlocks(BlockPool& pool) : pool_(&pool) {}
  ~SequenceBlocks() { Clear(); }
  SequenceBlocks(SequenceBlocks&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)), blocks_(std::move(other.blocks_)) {
    other.blocks_.clear();
  }
  SequenceBlocks& operator=(SequenceBlocks&& other) noexcept;

  bool has_pool() const { return pool_ != nullptr; }
  std::span<const int32_t> blocks() const { return blocks_; }
  int64_t size() const { return static_cast<int64_t>(blocks_.size()); }
  /// Room for so many tokens; all blocks that are missing, or none and false.
  bool Grow(int64_t tokens);
  /// Gives back what is not needed for so many tokens.
  void Shrink(int64_t tokens);
  /// Appends a block that already has a user for this sequence, as Find gives it.
  void Append(int32_t block);
  /// The same blocks with one user more each, of the first `tokens` tokens.
  SequenceBlocks Fork(int64_t tokens) const;
  /// Whether somebody else uses the block, too, so that nothing may be written to it.
  bool IsShared(int64_t index) const;
  /// Puts a block of its own in the place of a shared one; the caller copies what it holds. None
  /// where the pool has none left.
  std::optional<int32_t> ReplaceShared(int64_t index);
  void Clear() { Shrink(0); }

 private:
  BlockPool* pool_ = nullptr;
  std::vector<int32_t> blocks_;
};

/// The tokens of a sequence that the cache holds.
struct CachedSequence {
  SequenceBlocks blocks;
  int64_t length = 0;    ///< with those of steps that are under way
  int32_t adapter = -1;  ///< see SequenceSlice
  /// Of a prompt with pictures, which outlives the sequence: its tokens below 0 stand for rows.
  const PicturePlaces* pictures = nullptr;
  /// Of an encoder-decoder, which outlives the sequence, too: the prompt.
  const EncodedText* text = nullptr;
  /// Of a model whose layers have one, once a step has read a token: where `length` is.
  std::unique_ptr<KeptState> state = nullptr;
};

}  // namespace oort
