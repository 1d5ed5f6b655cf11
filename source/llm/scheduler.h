// SPDX-License-Identifier: MIT
// Which tokens of which sequences the next step computes, and who gives up blocks when none is
// left.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "llm/block_pool.h"
#include "llm/expected_growth.h"

namespace oort {

/// What is known of one sequence: its tokens, and how many of them the cache holds. A step computes
/// some of those between; a prompt, an answer, a prefix that was found and a sequence that is read
/// again differ in nothing else.
struct Sequence {
  int64_t id = 0;
  int priority = 0;             ///< a higher one is admitted first and preempted last
  uint64_t caller = 0;          ///< callers share the machine evenly
  uint64_t name_space = 0;      ///< prefixes are shared within one
  std::vector<int32_t> tokens;  ///< of the prompt, and of the answer so far
  int64_t most_length = 0;      ///< tokens that may have to be in the cache in the end
  bool shares_prefix = true;    ///< may begin with blocks that another one computed
  int64_t forks = 0;            ///< others that will begin with all of its tokens of now
  /// Sequences of one group, all but 0, go on together: none is preempted for another of them, and
  /// all of them, at their full length, fit the pool.
  int64_t group = 0;

  CachedSequence cached;
  int64_t computed = 0;  ///< tokens in the cache whose step is over
  int64_t reused = 0;    ///< of these, the ones that were found when it was admitted first
  int preemptions = 0;
  bool saved = false;  ///< preempted, with its blocks' contents kept elsewhere

  int64_t length() const { return static_cast<int64_t>(tokens.size()); }
  int64_t pending() const { return length() - computed; }

 private:
  friend class Scheduler;
  bool runs_ = false;
  int64_t arrival_ = 0;
  int64_t prompt_ = 0;       // tokens that it came with
  int64_t queued_ = 0;       // tokens that it had when it began to wait: a beam may get one more
  int64_t passed_over_ = 0;  // how often others were admitted, or read, before it
  int64_t published_ = 0;    // blocks
  std::optional<BlockRef> last_published_;
};

/// Keeps what is in the blocks of a preempted sequence. The default keeps nothing: such a sequence
/// is read again.
class BlockSaver {
 public:
  virtual ~BlockSaver() = default;
  /// Copies the blocks away; false where there is no room for that.
  virtual bool Save(const Sequence&) { return false; }
  /// Copies them into the sequence's new blocks, and forgets them.
  virtual void Restore(const Sequence&) {}
  virtual void Forget(const Sequence&) noexcept {}
};

struct SchedulerOptions {
  int64_t step_tokens = 512;    ///< most tokens of one step
  int64_t prompt_tokens = 512;  ///< most of these of one prompt
  /// So few tokens of a prompt, and fewer, are computed in another way than more of them, which
  /// shows in last digits. Parts of a longer prompt have more, however it is cut.
  int64_t few_tokens = 0;
  /// Parts of a prompt but the last are multiples of so many, the rows of kernels' tiles: a row at
  /// the end of a part would be computed in another way than one in the middle of a tile.
  int64_t tile_tokens = 1;
  int64_t most_running = 256;
  /// Whether one step may have tokens of prompts and of answers. Otherwise they take turns, and a
  /// prompt is read alone.
  bool mixed_steps = false;
  /// Whether a sequence is admitted only when all blocks that it may ever need are left. Then none
  /// is preempted.
  bool reserve = false;
  /// Whether a sequence is admitted only where all that run will have room, as far as the lengths
  /// of answers so far tell. Otherwise what is known of it and the watermark have to fit.
  bool expect_growth = true;
  double watermark = 0.05;   ///< of the blocks, kept for growth when one more is admitted
  int most_preemptions = 3;  ///< of one sequence
  bool share_prefixes = true;
};

/// The tokens of one sequence that a step computes: the first `count` pending ones.
struct StepShare {
  Sequence* sequence = nullptr;
  int64_t count = 0;
};

/// Admits sequences, hands out the tokens of each step, and grows their blocks just in time. Where
/// blocks run out it takes those that only cache a prefix, then those of the youngest sequence,
/// which waits and goes on later. The oldest sequence is never preempted, so that every one ends.
/// Decisions depend on the calls alone, never on time. Thread contract: one thread at a time.
class Scheduler {
 public:
  Scheduler(BlockPool& pool, const SchedulerOptions& options, BlockSaver& saver);

  /// Queues a sequence, whose most_length fits the pool: kLimit otherwise.
  Sequence& Add(std::unique_ptr<Sequence> sequence);
  /// Adds a running sequence that begins with all computed tokens of `parent`, in the same blocks.
  /// Both have to write behind them, so where the last block is not full the child gets one of its
  /// own, into which the caller copies it: from `copy.first` to `copy.second`. A state is copied
  /// here. Null where it would
  /// be one sequence too many, no block is left, or the parent waits. One of the parent's `forks`
  /// is then done.
  Sequence* Fork(Sequence& parent, std::unique_ptr<Sequence> child,
                 std::optional<std::pair<int32_t, int32_t>>& copy);
  /// From now on. Has to be 1 at least.
  void set_step_tokens(int64_t tokens) { options_.step_tokens = tokens; }
  /// Running sequences that lack one token.
  int64_t answering() const;
  /// What the next step computes; empty where nothing can be. Blocks for it are there.
  std::vector<StepShare> Next();
  /// Room for up to `count` guesses behind the one token that the last Next handed out, in blocks
  /// that nobody has to give up. Returns how many there is room for.
  int64_t MakeRoomForGuesses(Sequence& sequence, int64_t count);
  /// Says that a share of Next was computed: tokens that `tokens` has.
  void Computed(Sequence& sequence, int64_t count);
  /// Forgets what the cache holds behind the computed tokens, and gives its blocks back.
  void Rollback(Sequence& sequence);
  /// Begins again: nothing of it is in the cache that still serves, and prefixes come from another
  /// name space from now on.
  void Restart(Sequence& sequence, uint64_t name_space);
  /// Lets go of a sequence, waiting or running.
  std::unique_ptr<Sequence> Remove(Sequence& sequence);

  bool empty() const { return waiting_.empty() && running_.empty(); }
  int64_t waiting() const { return static_cast<int64_t>(waiting_.size()); }
  int64_t waiting_tokens() const { return waiting_tokens_; }
  int64_t running() const { return static_cast<int64_t>(running_.size()); }
  int64_t preemptions() const { return preemptions_; }
  /// Tokens that blocks in use hold, those of shared blocks once.
  int64_t used_tokens() const;
  /// Whether Next might admit somebody.
  bool CouldAdmit() const;

  /// Throws kInternal where sequences and pool contradict each other. For tests.
  void Check() const;

 private:
  using Owned = std::unique_ptr<Sequence>;

  void Admit();
  std::vector<Sequence*> AdmissionOrder() const;
  bool TryAdmit(Sequence& sequence, bool to_the_last_block = false);
  bool AdmitOldest();
  int64_t ArrivalOf(const Sequence& sequence);
  bool IsBeingRead(const Sequence& sequence) const;
  void TakePrefix(Sequence& sequence);
  void PublishPartial(const Sequence& sequence);
  bool HasRoomFor(const Sequence& sequence, bool to_the_last_block) const;
  bool IsFull() const;
  int64_t spare_blocks() const;
  int64_t ExpectedBlocks(const Sequence& candidate) const;
  ExpectedLife LifeOf(const Sequence& sequence, int64_t& shared) const;
  bool MakeRoom(Sequence& sequence, int64_t count);
  Sequence* Victim(const Sequence& grower) const;
  void Preempt(Sequence& victim);
  template <typename Test, typename Less>
  std::vector<Sequence*> Ready(const Test& test, const Less& less) const;
  void AddAnswers(std::vector<StepShare>& step);
  void AddPrompts(std::vector<StepShare>& step);
  int64_t PartOf(const Sequence& prompt, int64_t most) const;
  int64_t EvenPart(int64_t pending, int64_t most) const;
  std::vector<StepShare> HandOut();
  void PutWaiting(Owned sequence);
  Owned TakeWaiting(const Sequence& sequence);

  BlockPool& pool_;
  SchedulerOptions options_;
  BlockSaver& saver_;
  std::vector<Owned> waiting_;
  int64_t waiting_tokens_ = 0;          // of these
  std::vector<Owned> running_;          // the one that goes first is never preempted
  std::map<uint64_t, int64_t> served_;  // tokens computed for each caller that has sequences here
  int64_t arrivals_ = 0;
  int64_t preemptions_ = 0;
  bool prompts_turn_ = true;
  /// Whether nobody who waits had room, and nothing happened since that would make some.
  bool closed_ = false;
  AnswerLengths lengths_;
};

}  // namespace oort
