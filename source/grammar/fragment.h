// SPDX-License-Identifier: MIT
// The states of one rule.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "grammar/rules.h"

namespace oort::grammar {

struct Edge {
  uint8_t low, high;
  int32_t target;
  auto operator<=>(const Edge&) const = default;
};
struct CallEdge {
  RuleId rule;
  int32_t target;  ///< where to go on behind it
  auto operator<=>(const CallEdge&) const = default;
};

struct FragmentState {
  std::vector<Edge> edges;
  std::vector<CallEdge> calls;
  bool accepting = false;
};
/// State 0 is where the rule begins.
using Fragment = std::vector<FragmentState>;

/// Counts what a grammar takes over all of its rules.
struct Budget {
  explicit Budget(std::chrono::milliseconds most) : deadline(most) {}
  /// Throws kLimit where there are too many.
  void AddStates(int64_t count);
  void AddEdges(int64_t count);

  Deadline deadline;
  int64_t states = 0, edges = 0;
};

/// The states of an expression. `done` has the fragments of rules that are finished, by rule; small
/// ones that call nothing take the place of calls.
Fragment LowerRule(const Rules& rules, ExprId body, const std::vector<Fragment>& done,
                   Budget& budget);

/// At most one edge for each byte and rule, where that does not take many more states.
Fragment Determinized(Fragment fragment, Budget& budget);

}  // namespace oort::grammar
