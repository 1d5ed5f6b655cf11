// SPDX-License-Identifier: MIT
#include "llm/scheduler.h"

#include <algorithm>
#include <limits>
#include <string>
#include <tuple>
#include <utility>

#include "core/checked.h"
#include "oort/error.h"

namespace oort {
namespace {

constexpr int64_t kBlockTokens = BlockPool::kBlockTokens;
/// A sequence that others overtook so often is overtaken no more.
constexpr int64_t kMostPassedOver = 64;
/// Tokens by which a prompt counts as shorter each time that another one is read before it.
constexpr int64_t kTokensOfAge = 128;
/// Tokens of prompts in a step that answers fill.
constexpr int64_t kLeastPromptTokens = 64;
/// Who waits behind so many that have no room is not asked: each costs time.
constexpr size_t kMostAsked = 64;
/// A sequence that needs no more than so many further blocks is preempted only where no other is
/// left: it gives all its blocks back soon.
constexpr int64_t kBlocksNearEnd = 2;

size_t CommonPrefix(std::span<const int32_t> a, std::span<const int32_t> b) {
  return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

bool IsNearEnd(const Sequence& sequence) {
  return KvCache::BlocksFor(sequence.most_length) - sequence.cached.blocks.size() <= kBlocksNearEnd;
}

/// Blocks that a fork of all tokens has for itself in the end.
int64_t BlocksOfFork(const Sequence& sequence) {
  return KvCache::BlocksFor(sequence.most_length) - sequence.length() / kBlockTokens;
}

/// Blocks that a sequence may still need, its forks to come included.
int64_t BlocksMissing(const Sequence& sequence) {
  return KvCache::BlocksFor(sequence.most_length) - sequence.cached.blocks.size() +
         sequence.forks * BlocksOfFork(sequence);
}

void Require(bool holds, const std::string& what) {
  if (!holds) throw Error(ErrorCode::kInternal, "scheduler: " + what);
}

std::unique_ptr<Sequence> Extract(std::vector<std::unique_ptr<Sequence>>& from,
                                  const Sequence& which) {
  const auto place = std::ranges::find(from, &which, &std::unique_ptr<Sequence>::get);
  if (place == from.end()) return nullptr;
  std::unique_ptr<Sequence> sequence = std::move(*place);
  from.erase(place);
  return sequence;
}

}  // namespace

Scheduler::Scheduler(BlockPool& pool, const SchedulerOptions& options, BlockSaver& saver)
    : pool_(pool), options_(options), saver_(saver) {
  if (options.step_tokens < 1 || options.prompt_tokens < 1 || options.most_running < 1 ||
      options.watermark < 0 || options.watermark > 1) {
    throw Error(ErrorCode::kInvalidArgument,
                "a scheduler needs tokens a step, running sequences, and a watermark from 0 to 1");
  }
}

Sequence& Scheduler::Add(Owned sequence) {
  if (KvCache::BlocksFor(sequence->most_length) > pool_.blocks()) {
    throw Error(ErrorCode::kLimit, "a sequence of " + std::to_string(sequence->most_length) +
                                       " tokens does not fit a cache of " +
                                       std::to_string(pool_.blocks() * kBlockTokens));
  }
  // Who comes anew has no claim to what others were served before.
  if (!served_.contains(sequence->caller)) {
    int64_t least = std::numeric_limits<int64_t>::max();
    for (const auto& [caller, served] : served_) least = std::min(least, served);
    served_[sequence->caller] = served_.empty() ? 0 : least;
  }
  // Forks for which there will never be room beside it wait until it is done.
  if (const int64_t blocks = BlocksOfFork(*sequence); blocks > 0) {
    const int64_t left = pool_.blocks() - KvCache::BlocksFor(sequence->most_length);
    sequence->forks = std::min(sequence->forks, left / blocks);
  }
  waiting_.reserve(waiting_.size() + 1);
  sequence->arrival_ = ArrivalOf(*sequence);
  sequence->prompt_ = sequence->length();
  sequence->cached.blocks = SequenceBlocks(pool_);
  closed_ = false;
  PutWaiting(std::move(sequence));
  return *waiting_.back();
}

/// There is room for one more in the list.
void Scheduler::PutWaiting(Owned sequence) {
  sequence->queued_ = sequence->length();
  waiting_tokens_ += sequence->queued_;
  waiting_.push_back(std::move(sequence));
}

/// None where it does not wait.
Scheduler::Owned Scheduler::TakeWaiting(const Sequence& sequence) {
  Owned taken = Extract(waiting_, sequence);
  if (taken) waiting_tokens_ -= taken->queued_;
  return taken;
}

/// Sequences of a group are of one age.
int64_t Scheduler::ArrivalOf(const Sequence& sequence) {
  if (sequence.group != 0) {
    for (const std::vector<Owned>* list : {&running_, &waiting_}) {
      const auto found =
          std::ranges::find(*list, sequence.group, [](const Owned& other) { return other->group; });
      if (found != list->end()) return (*found)->arrival_;
    }
  }
  return arrivals_++;
}

Sequence* Scheduler::Fork(Sequence& parent, Owned child,
                          std::optional<std::pair<int32_t, int32_t>>& copy) {
  copy.reset();
  const int64_t forks = parent.forks;
  parent.forks = std::max<int64_t>(forks - 1, 0);
  const bool is_partial = parent.computed % kBlockTokens != 0;
  if (!parent.runs_ || running() >= options_.most_running ||
      (is_partial && pool_.free_blocks() == 0)) {
    return nullptr;
  }
  running_.reserve(running_.size() + 1);
  if (parent.cached.state) child->cached.state = parent.cached.state->Clone();
  child->cached.blocks = parent.cached.blocks.Fork(parent.computed);
  if (is_partial) {
    const int32_t shared = child->cached.blocks.blocks().back();
    copy.emplace(shared, *child->cached.blocks.ReplaceShared(child->cached.blocks.size() - 1));
  }
  if (options_.reserve && forks == 0 && !HasRoomFor(*child, true)) {
    copy.reset();
    return nullptr;
  }
  served_.try_emplace(child->caller, served_[parent.caller]);
  child->arrival_ = ArrivalOf(*child);
  child->prompt_ = parent.prompt_;
  child->runs_ = true;
  child->computed = child->reused = child->cached.length = parent.computed;
  child->published_ = std::min(parent.published_, parent.computed / kBlockTokens);
  child->last_published_ = parent.last_published_;
  return running_.emplace_back(std::move(child)).get();
}

std::vector<StepShare> Scheduler::Next() {
  Admit();
  std::vector<StepShare> step = HandOut();
  if (step.empty() && AdmitOldest()) step = HandOut();
  return step;
}

/// Where all that run wait for others of their groups, which have no room: the oldest of these gets
/// that of the youngest ones that run. So the oldest group goes on, and ends.
bool Scheduler::AdmitOldest() {
  if (waiting_.empty()) return false;
  const auto age = [](const Owned& sequence) { return sequence->arrival_; };
  Sequence& oldest = **std::ranges::min_element(waiting_, {}, age);
  while (running() >= options_.most_running || !TryAdmit(oldest, true)) {
    const auto youngest = std::ranges::max_element(running_, {}, age);
    if (youngest == running_.end() || (*youngest)->arrival_ <= oldest.arrival_) return false;
    Preempt(**youngest);
  }
  return true;
}

std::vector<StepShare> Scheduler::HandOut() {
  std::vector<StepShare> step;
  if (options_.mixed_steps) {
    AddAnswers(step);
    AddPrompts(step);
    // A prompt may have taken the blocks of a younger sequence that was to have a token.
    std::erase_if(step, [](const StepShare& share) { return !share.sequence->runs_; });
    return step;
  }
  // Prompts and answers take turns, where both have something to do.
  if (prompts_turn_) AddPrompts(step);
  prompts_turn_ = step.empty();
  if (step.empty()) AddAnswers(step);
  if (step.empty()) {
    AddPrompts(step);
    prompts_turn_ = false;
  }
  return step;
}

/// The running sequences that pass the test, in order: a list of its own, since sequences leave
/// running_ when they lose their blocks to those before them.
template <typename Test, typename Less>
std::vector<Sequence*> Scheduler::Ready(const Test& test, const Less& less) const {
  std::vector<Sequence*> ready;
  for (const Owned& sequence : running_) {
    if (test(*sequence)) ready.push_back(sequence.get());
  }
  std::ranges::sort(ready, [&](const Sequence* a, const Sequence* b) { return less(*a, *b); });
  return ready;
}

/// One token of every sequence that lacks one: the older ones grow first.
void Scheduler::AddAnswers(std::vector<StepShare>& step) {
  const auto lacks_one = [](const Sequence& sequence) { return sequence.pending() == 1; };
  const auto older = [](const Sequence& a, const Sequence& b) { return a.arrival_ < b.arrival_; };
  for (Sequence* sequence : Ready(lacks_one, older)) {
    if (sequence->runs_ && MakeRoom(*sequence, 1)) step.push_back({sequence, 1});
  }
}

/// How many tokens the next part of a prompt has: such that it ends with a tile and does not leave
/// few, nor is few. `most` is 1 at least.
int64_t Scheduler::PartOf(const Sequence& prompt, int64_t most) const {
  const int64_t pending = prompt.pending(), few = options_.few_tokens, tile = options_.tile_tokens;
  if (pending <= most) return pending;
  const int64_t whole = most - most % tile;
  int64_t count = whole > few ? whole : most;
  if (most < options_.prompt_tokens && !options_.mixed_steps) count = EvenPart(pending, count);
  const int64_t rest = pending - count;
  if (rest > few) return count;
  const int64_t shorter = count - CeilDivide(few + 1 - rest, tile) * tile;
  if (shorter > few) return shorter;
  // What two parts of more than few would not make stays whole, though it is a little more.
  return pending <= options_.prompt_tokens ? pending : count;
}

/// Where parts are short so that answers do not wait, the longest of as many parts counts.
int64_t Scheduler::EvenPart(int64_t pending, int64_t most) const {
  const int64_t parts = CeilDivide(pending, most), tile = options_.tile_tokens;
  const int64_t even = pending / parts / tile * tile;
  for (const int64_t count : {even, even + tile}) {
    if (count > options_.few_tokens && count <= most && pending - count <= (parts - 1) * most)
      return count;
  }
  return most;
}

/// Parts of prompts: of one, or of as many as a mixed step has room for. The shortest goes first;
/// a prompt that waits counts as shorter from step to step, so that long ones get their turn.
void Scheduler::AddPrompts(std::vector<StepShare>& step) {
  int64_t left = options_.step_tokens;
  // However many answers there are, prompts go on, too.
  if (options_.mixed_steps) {
    left = std::max(left - static_cast<int64_t>(step.size()), std::min(left, kLeastPromptTokens));
  }
  const auto lacks_more = [](const Sequence& sequence) { return sequence.pending() > 1; };
  const auto shorter = [](const Sequence& a, const Sequence& b) {
    const int64_t length_a = a.pending() - kTokensOfAge * a.passed_over_;
    const int64_t length_b = b.pending() - kTokensOfAge * b.passed_over_;
    return length_a != length_b ? length_a < length_b : a.arrival_ < b.arrival_;
  };
  for (Sequence* sequence : Ready(lacks_more, shorter)) {
    if (!sequence->runs_) continue;
    const int64_t most = std::min(options_.prompt_tokens, left);
    const int64_t count = most > 0 ? PartOf(*sequence, most) : 0;
    if (count > 0 && MakeRoom(*sequence, count)) {
      step.push_back({sequence, count});
      sequence->passed_over_ = 0;
      left = options_.mixed_steps ? left - count : 0;
    } else {
      ++sequence->passed_over_;
    }
  }
}

void Scheduler::Computed(Sequence& sequence, int64_t count) {
  sequence.computed += count;
  served_[sequence.caller] += count;
  if (!options_.share_prefixes || !sequence.shares_prefix) return;
  for (; (sequence.published_ + 1) * kBlockTokens <= sequence.computed; ++sequence.published_) {
    const size_t block = static_cast<size_t>(sequence.published_);
    sequence.last_published_ = pool_.Publish(
        sequence.cached.blocks.blocks()[block], sequence.last_published_, sequence.name_space,
        std::span<const int32_t>(sequence.tokens)
            .subspan(block * static_cast<size_t>(kBlockTokens), static_cast<size_t>(kBlockTokens)));
  }
}

int64_t Scheduler::MakeRoomForGuesses(Sequence& sequence, int64_t count) {
  const int64_t begun = sequence.computed + 1;
  const int64_t blocks = sequence.cached.blocks.size() + pool_.free_blocks();
  const int64_t most = std::min(sequence.most_length, blocks * kBlockTokens) - begun;
  count = std::clamp<int64_t>(most, 0, count);
  return sequence.cached.blocks.Grow(begun + count) ? count : 0;
}

/// What was rejected was never published: Computed publishes what it is told of, no more.
void Scheduler::Rollback(Sequence& sequence) {
  sequence.cached.length = sequence.computed;
  sequence.cached.blocks.Shrink(sequence.computed);
}

/// The next turn of a conversation begins with the last block of this one, full or not.
void Scheduler::PublishPartial(const Sequence& sequence) {
  if (!options_.share_prefixes || !sequence.shares_prefix) return;
  const int64_t block = sequence.computed / kBlockTokens, count = sequence.computed % kBlockTokens;
  if (count == 0 || sequence.published_ != block || sequence.cached.blocks.size() <= block) return;
  pool_.Publish(
      sequence.cached.blocks.blocks()[static_cast<size_t>(block)], sequence.last_published_,
      sequence.name_space,
      std::span<const int32_t>(sequence.tokens)
          .subspan(static_cast<size_t>(block * kBlockTokens), static_cast<size_t>(count)));
}

void Scheduler::Restart(Sequence& sequence, uint64_t name_space) {
  closed_ = false;
  PublishPartial(sequence);
  sequence.cached.blocks.Clear();
  sequence.cached.state.reset();
  sequence.computed = sequence.cached.length = 0;
  sequence.published_ = 0;
  sequence.last_published_.reset();
  sequence.name_space = name_space;
}

std::unique_ptr<Sequence> Scheduler::Remove(Sequence& sequence) {
  Owned removed = sequence.runs_ ? Extract(running_, sequence) : TakeWaiting(sequence);
  Require(removed != nullptr, "a sequence was removed twice");
  removed->runs_ = false;
  // Beams end for other reasons than that they are answers.
  if (removed->group == 0 && removed->computed >= removed->prompt_) {
    lengths_.Ended(removed->length() - removed->prompt_, removed->most_length - removed->prompt_);
  }
  if (std::exchange(removed->saved, false)) saver_.Forget(*removed);
  Restart(*removed, removed->name_space);
  const auto of_caller = [&](const Owned& other) { return other->caller == removed->caller; };
  if (std::ranges::none_of(running_, of_caller) && std::ranges::none_of(waiting_, of_caller)) {
    served_.erase(removed->caller);
  }
  return removed;
}

/// By priority; among equals those that were preempted, since they hold up their readers; then the
/// callers that were served least; then age.
std::vector<Sequence*> Scheduler::AdmissionOrder() const {
  std::vector<Sequence*> order;
  for (const Owned& sequence : waiting_) order.push_back(sequence.get());
  std::ranges::sort(order, [&](const Sequence* a, const Sequence* b) {
    const auto rank = [&](const Sequence& s) {
      const bool overdue = s.passed_over_ >= kMostPassedOver;
      return std::tuple(!overdue, -s.priority, s.preemptions == 0, served_.at(s.caller),
                        s.arrival_);
    };
    return rank(*a) < rank(*b);
  });
  return order;
}

void Scheduler::Admit() {
  if (waiting_.empty() || closed_ || IsFull()) return;
  std::vector<Sequence*> left;
  size_t reading = 0;  // those who wait for what is being read
  for (Sequence* sequence : AdmissionOrder()) {
    if (running() >= options_.most_running) break;
    if (TryAdmit(*sequence)) {
      for (Sequence* other : left) ++other->passed_over_;
      continue;
    }
    left.push_back(sequence);
    const bool waits = IsBeingRead(*sequence);
    reading += waits ? 1 : 0;
    // One that was passed over too often waits at the head of the queue, and all others behind it.
    if (sequence->passed_over_ >= kMostPassedOver && !waits) break;
    // A preempted one must not lose its place to those that came after it.
    if (sequence->preemptions > 0 || left.size() - reading >= kMostAsked) break;
  }
  closed_ = reading == 0;
}

bool Scheduler::CouldAdmit() const {
  if (waiting_.empty() || closed_ || IsFull()) return false;
  return std::ranges::any_of(waiting_, [&](const Owned& sequence) {
    return options_.share_prefixes || HasRoomFor(*sequence, false);
  });
}

/// Whether a running sequence is about to compute blocks that this one could begin with: then it
/// waits for them instead of computing them, too.
bool Scheduler::IsBeingRead(const Sequence& sequence) const {
  if (!options_.share_prefixes || !sequence.shares_prefix) return false;
  for (const Owned& other : running_) {
    if (other->pending() <= 1 || !other->shares_prefix || other->name_space != sequence.name_space)
      continue;
    const int64_t common = static_cast<int64_t>(CommonPrefix(other->tokens, sequence.tokens));
    const int64_t usable = std::min(common, sequence.length() - 1) / kBlockTokens;
    if (usable > other->computed / kBlockTokens) return true;
  }
  return false;
}

/// Begins with the blocks of others that hold the first tokens. The last token is always computed:
/// its logits are wanted.
void Scheduler::TakePrefix(Sequence& sequence) {
  if (!options_.share_prefixes || !sequence.shares_prefix) return;
  const std::span<const int32_t> tokens =
      std::span<const int32_t>(sequence.tokens)
          .first(static_cast<size_t>(std::max<int64_t>(sequence.length() - 1, 0)));
  for (size_t first = 0; first + static_cast<size_t>(kBlockTokens) <= tokens.size();
       first += static_cast<size_t>(kBlockTokens)) {
    const std::optional<BlockRef> found =
        pool_.Find(sequence.last_published_, sequence.name_space,
                   tokens.subspan(first, static_cast<size_t>(kBlockTokens)));
    if (!found) break;
    sequence.cached.blocks.Append(found->block);
    sequence.last_published_ = found;
    ++sequence.published_;
  }
  sequence.computed = sequence.published_ * kBlockTokens;
  const std::optional<BlockPool::PartialBlock> partial =
      pool_.TakePartial(sequence.last_published_, sequence.name_space,
                        tokens.subspan(static_cast<size_t>(sequence.computed)));
  if (partial) {
    sequence.cached.blocks.Append(partial->block);
    sequence.computed += partial->tokens;
  }
  sequence.cached.length = sequence.computed;
}

/// Whether all that is known of the sequence fits beside the others, with room left for growth.
bool Scheduler::HasRoomFor(const Sequence& sequence, bool to_the_last_block) const {
  int64_t reserved = pool_.used_blocks() + BlocksMissing(sequence);
  for (const Owned& other : running_) reserved += BlocksMissing(*other);
  // However long all of them become, nobody will have to give way.
  if (reserved <= pool_.blocks()) return true;
  if (options_.reserve) return false;
  const int64_t needed =
      KvCache::BlocksFor(sequence.length()) - sequence.cached.blocks.size() + sequence.forks;
  if (to_the_last_block) return needed <= pool_.free_blocks();
  if (needed + spare_blocks() > pool_.free_blocks()) return false;
  return running_.empty() || !options_.expect_growth ||
         ExpectedBlocks(sequence) + spare_blocks() <= pool_.blocks();
}

/// `shared` loses the blocks that are its own: those behind the ones that others use, too.
ExpectedLife Scheduler::LifeOf(const Sequence& sequence, int64_t& shared) const {
  const std::span<const int32_t> blocks = sequence.cached.blocks.blocks();
  const auto own =
      std::ranges::partition_point(blocks, [&](int32_t block) { return pool_.users(block) > 1; });
  shared -= blocks.end() - own;
  const int64_t answered = sequence.length() - sequence.prompt_;
  return {sequence.length() - (own - blocks.begin()) * kBlockTokens,
          lengths_.Left(answered, sequence.most_length - sequence.prompt_)};
}

/// The most blocks that those that run and this one will take, as far as can be told.
int64_t Scheduler::ExpectedBlocks(const Sequence& candidate) const {
  int64_t shared = pool_.used_blocks();
  std::vector<ExpectedLife> lives;
  for (const Owned& sequence : running_) {
    lives.push_back(LifeOf(*sequence, shared));
    lives.insert(lives.end(), static_cast<size_t>(sequence->forks), {0, lives.back().left});
  }
  lives.push_back(LifeOf(candidate, shared));
  lives.insert(lives.end(), static_cast<size_t>(candidate.forks), {0, lives.back().left});
  return shared + PeakBlocks(lives);
}

/// Blocks that are kept for the growth of those that run.
int64_t Scheduler::spare_blocks() const {
  if (running_.empty() || options_.reserve) return 0;
  return static_cast<int64_t>(options_.watermark * static_cast<double>(pool_.blocks()));
}

/// Whether nobody at all can be admitted: even one that finds all but its last token in the cache
/// needs a block for that.
bool Scheduler::IsFull() const {
  return running() >= options_.most_running || spare_blocks() >= pool_.free_blocks();
}

bool Scheduler::TryAdmit(Sequence& sequence, bool to_the_last_block) {
  if (IsBeingRead(sequence)) return false;
  running_.reserve(running_.size() + 1);
  const auto give_back = [&] {
    if (!sequence.saved) Restart(sequence, sequence.name_space);
  };
  try {
    const int64_t saved = sequence.computed;
    if (!sequence.saved) TakePrefix(sequence);
    if (!HasRoomFor(sequence, to_the_last_block) ||
        (sequence.saved && !sequence.cached.blocks.Grow(saved))) {
      give_back();
      return false;
    }
  } catch (...) {  // there was no memory
    give_back();
    throw;
  }
  if (std::exchange(sequence.saved, false)) saver_.Restore(sequence);
  if (sequence.preemptions == 0) sequence.reused = sequence.computed;
  sequence.runs_ = true;
  sequence.passed_over_ = 0;
  running_.push_back(TakeWaiting(sequence));
  return true;
}

/// Blocks for `count` more tokens, if need be those of other sequences.
bool Scheduler::MakeRoom(Sequence& sequence, int64_t count) {
  while (!sequence.cached.blocks.Grow(sequence.computed + count)) {
    Sequence* const victim = Victim(sequence);
    if (victim == nullptr) return false;
    Preempt(*victim);
  }
  return true;
}

/// Of those that came after the one that grows: the one of least priority, near its end only where
/// no other is left, and of these the youngest. One that was preempted often enough gives way to
/// nobody but the oldest sequence, which has to end.
Sequence* Scheduler::Victim(const Sequence& grower) const {
  Sequence* oldest = nullptr;
  for (const Owned& other : running_) {
    if (oldest == nullptr || other->arrival_ < oldest->arrival_) oldest = other.get();
  }
  const auto rank = [](const Sequence& s) {
    return std::tuple(IsNearEnd(s), s.priority, -s.arrival_);
  };
  Sequence* victim = nullptr;
  for (const Owned& owned : running_) {
    Sequence* const other = owned.get();
    const bool may_go = &grower == oldest || other->preemptions < options_.most_preemptions;
    if (other->arrival_ <= grower.arrival_ || other->cached.blocks.size() == 0 || !may_go) continue;
    if (victim == nullptr || rank(*other) < rank(*victim)) victim = other;
  }
  return victim;
}

void Scheduler::Preempt(Sequence& victim) {
  waiting_.reserve(waiting_.size() + 1);
  victim.saved = saver_.Save(victim);
  const int64_t computed = victim.computed;
  const int64_t published = victim.published_;
  const std::optional<BlockRef> last = victim.last_published_;
  Restart(victim, victim.name_space);
  if (victim.saved) {
    // Its blocks come back with the same tokens; the published ones may be found by others still.
    victim.computed = victim.cached.length = computed;
    victim.published_ = published;
    victim.last_published_ = last;
  }
  ++victim.preemptions;
  ++preemptions_;
  lengths_.Exceeded();
  victim.runs_ = false;
  PutWaiting(Extract(running_, victim));
}

int64_t Scheduler::answering() const {
  return std::ranges::count_if(running_,
                               [](const Owned& sequence) { return sequence->pending() == 1; });
}

int64_t Scheduler::used_tokens() const {
  int64_t tokens = pool_.used_blocks() * kBlockTokens;
  // Only full blocks are shared, so that what is not filled is one sequence's.
  for (const Owned& sequence : running_) {
    tokens -= sequence->cached.blocks.size() * kBlockTokens - sequence->computed;
  }
  return tokens;
}

void Scheduler::Check() const {
  pool_.Check();
  std::map<int32_t, int32_t> users;
  for (const Owned& sequence : running_) {
    Require(sequence->runs_, "a running sequence says that it waits");
    Require(sequence->cached.blocks.size() >= KvCache::BlocksFor(sequence->computed),
            "a sequence has fewer blocks than tokens");
    Require(sequence->computed <= sequence->length(), "more was computed than is known");
    for (int32_t block : sequence->cached.blocks.blocks()) ++users[block];
  }
  int64_t waiting_tokens = 0;
  for (const Owned& sequence : waiting_) {
    Require(!sequence->runs_ && sequence->cached.blocks.size() == 0 && !sequence->cached.state,
            "a waiting sequence holds blocks or a state");
    waiting_tokens += sequence->queued_;
  }
  Require(waiting_tokens == waiting_tokens_, "the tokens of those that wait are miscounted");
  Require(static_cast<int64_t>(users.size()) == pool_.used_blocks(), "a block in use is nobody's");
  for (const auto& [block, count] : users) {
    Require(pool_.users(block) == count, "the users of a block are miscounted");
  }
  Require(running() <= options_.most_running, "too many sequences run");
}

}  // namespace oort
