// SPDX-License-Identifier: MIT
// A grammar over bytes as a pushdown automaton: rules whose states read bytes or call rules.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "grammar/fragment.h"
#include "grammar/rules.h"

namespace oort::grammar {

/// Every state can reach an end, and no rule can call itself before it has read something.
/// Thread contract: immutable.
class Automaton {
 public:
  /// Throws kInvalidArgument where a rule calls itself without reading anything or where nothing
  /// matches, and kLimit where it becomes too large or takes too long.
  Automaton(Rules rules, std::chrono::milliseconds most_time);

  std::span<const Edge> edges(int32_t state) const {
    return Slice(edges_, edge_begin_, static_cast<size_t>(state));
  }
  std::span<const CallEdge> calls(int32_t state) const {
    return Slice(calls_, call_begin_, static_cast<size_t>(state));
  }
  bool accepting(int32_t state) const { return accepting_[static_cast<size_t>(state)]; }
  /// Nothing is left to do in its rule but to return.
  bool is_final(int32_t state) const { return edges(state).empty() && calls(state).empty(); }
  int32_t start(RuleId rule) const { return start_[static_cast<size_t>(rule)]; }
  bool nullable(RuleId rule) const { return nullable_[static_cast<size_t>(rule)]; }
  /// Rules that a rule calls before it reads anything have higher numbers.
  int32_t order(RuleId rule) const { return order_[static_cast<size_t>(rule)]; }
  RuleId root() const { return root_; }
  int32_t states() const { return static_cast<int32_t>(accepting_.size()); }
  size_t bytes() const;

 private:
  template <typename T>
  static std::span<const T> Slice(const std::vector<T>& all, const std::vector<uint32_t>& begin,
                                  size_t i) {
    return {all.data() + begin[i], all.data() + begin[i + 1]};
  }
  void Join(const std::vector<Fragment>& fragments);
  void Prune(Deadline& deadline);
  void FindNullable();
  void Order(const Rules& rules);

  std::vector<Edge> edges_;
  std::vector<CallEdge> calls_;
  std::vector<uint32_t> edge_begin_, call_begin_;
  std::vector<bool> accepting_;
  std::vector<int32_t> start_;  ///< -1: the root does not lead there
  std::vector<bool> nullable_;
  std::vector<int32_t> order_;
  RuleId root_ = 0;
};

}  // namespace oort::grammar
