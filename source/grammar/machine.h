// SPDX-License-Identifier: MIT
// Runs an automaton over bytes. All ways through it are followed at once; where it has got to is a
// configuration with a number, and equal ones have equal numbers, so that a step that was taken
// before is one look into a table.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "grammar/automaton.h"

namespace oort::grammar {

/// A state, and the stack below it.
struct Item {
  int32_t state;
  int32_t node;
  auto operator<=>(const Item&) const = default;
};

/// The stack is a graph: a node has all places that its rule may return to, each with the node
/// below it. So an ambiguous grammar takes no more nodes than it has rules for each byte.
/// Thread contract: one thread at a time.
class Machine {
 public:
  explicit Machine(std::shared_ptr<const Automaton> automaton);

  static constexpr int32_t kDead = 0;
  static constexpr size_t kMostWork = 10'000'000;  ///< items, of all new steps together
  /// Before the first byte.
  int32_t Begin();
  /// In this state with an unknown stack below it, as if its rule could not end here.
  int32_t BeginAt(int32_t state);
  /// In these states at once; what they return to by the end of their rules is followed.
  int32_t BeginWith(std::span<const Item> items);
  int32_t Step(int32_t from, uint8_t byte) {
    const int32_t to = next_[static_cast<size_t>(from)][byte];
    return to >= 0 ? to : StepAnew(from, byte);
  }

  /// All of the grammar has been read.
  bool complete(int32_t at) const { return configurations_[static_cast<size_t>(at)].complete; }
  /// The rule of BeginAt has been read.
  bool returned(int32_t at) const { return configurations_[static_cast<size_t>(at)].returned; }
  /// States that were reached by reading, not by calling: what follows from the stack alone.
  std::span<const Item> kernel(int32_t at) const {
    const Configuration& c = configurations_[static_cast<size_t>(at)];
    return {items_.data() + c.kernel, items_.data() + c.expanded};
  }
  /// What a node's rule returns to.
  std::span<const Item> parents(int32_t node) const {
    const size_t i = static_cast<size_t>(node);
    return {parents_.data() + node_begin_[i], parents_.data() + node_begin_[i + 1]};
  }
  /// The number here of what has another number there.
  int32_t Import(const Machine& other, int32_t at);
  /// Steps that were not taken before cost work, in ambiguous grammars much of it. Throws kLimit
  /// where it is more than a mask or a token may take since the last call of this.
  void AllowWork() { work_ = 0; }
  size_t work() const { return work_; }  ///< since then
  /// Counts what was found elsewhere for it.
  void AddWork(size_t items);
  size_t bytes() const;
  const std::shared_ptr<const Automaton>& automaton() const { return automaton_; }

 private:
  struct Configuration {
    uint32_t kernel = 0, expanded = 0, end = 0;  ///< places in items_
    bool complete = false, returned = false;
  };
  /// Places to return to that are no states.
  static constexpr int32_t kComplete = -1, kReturned = -2;
  static constexpr int32_t kRootNode = 0, kUnknownNode = 1;

  int32_t StepAnew(int32_t from, uint8_t byte);
  int32_t Node(std::vector<Item>& parents);
  void Clear();
  bool IsKnown(Item item);
  void AddKernel(Item item);
  void FollowReturns();
  void ExpandCalls();
  void AddCaller(RuleId rule, Item caller);
  void Expand(Item item);
  int32_t Configure();

  std::shared_ptr<const Automaton> automaton_;
  std::vector<Item> items_;
  std::vector<Configuration> configurations_;
  std::vector<std::array<int32_t, 256>> next_;
  std::unordered_multimap<uint64_t, int32_t> by_hash_;
  std::vector<Item> parents_;
  std::vector<uint32_t> node_begin_;
  std::unordered_multimap<uint64_t, int32_t> node_by_hash_;

  // What a step is made in.
  std::vector<Item> kernel_, expanded_;
  std::unordered_set<uint64_t> known_;  ///< what kernel_ has, once that is long
  size_t followed_ = 0;
  size_t work_ = 0;
  bool complete_ = false, returned_ = false;
  std::vector<std::pair<RuleId, std::vector<Item>>> callers_;
};

}  // namespace oort::grammar
