// SPDX-License-Identifier: MIT
#include "grammar/automaton.h"

#include <algorithm>
#include <string>

#include "core/problems.h"
#include "oort/error.h"

namespace oort::grammar {
namespace {

/// The rules that an expression calls.
std::vector<RuleId> CalledBy(const Rules& rules, ExprId body, std::vector<int32_t>& seen,
                             int32_t stamp) {
  std::vector<RuleId> called;
  std::vector<ExprId> open = {body};
  const auto visit = [&](ExprId id) {
    if (id < 0 || seen[static_cast<size_t>(id)] == stamp) return;
    seen[static_cast<size_t>(id)] = stamp;
    open.push_back(id);
  };
  while (!open.empty()) {
    const Expr& e = rules.expr(open.back());
    open.pop_back();
    if (e.kind == Expr::Kind::kCall) called.push_back(e.rule);
    for (const ExprId child : e.children) visit(child);
    visit(e.separator);
    visit(e.rest);
  }
  return called;
}

/// All rules that the root leads to, those that a rule calls before it wherever that is possible.
std::vector<RuleId> CalledFirst(const Rules& rules) {
  struct Open {
    RuleId rule;
    std::vector<RuleId> called;
    size_t next = 0;
  };
  std::vector<RuleId> order;
  std::vector<bool> found(static_cast<size_t>(rules.rules()));
  std::vector<int32_t> seen(static_cast<size_t>(rules.exprs()), -1);
  std::vector<Open> stack;
  const auto enter = [&](RuleId rule) {
    if (found[static_cast<size_t>(rule)]) return;
    found[static_cast<size_t>(rule)] = true;
    stack.push_back({rule, CalledBy(rules, rules.body(rule), seen, rule)});
  };
  enter(rules.root);
  while (!stack.empty()) {
    Open& top = stack.back();
    if (top.next < top.called.size()) {
      enter(top.called[top.next++]);
    } else {
      order.push_back(top.rule);
      stack.pop_back();
    }
  }
  return order;
}

}  // namespace

Automaton::Automaton(Rules rules, std::chrono::milliseconds most_time) : root_(rules.root) {
  Budget budget(most_time);
  rules.OutlineRepeats();
  std::vector<Fragment> fragments(static_cast<size_t>(rules.rules()));
  for (const RuleId rule : CalledFirst(rules)) {
    fragments[static_cast<size_t>(rule)] =
        Determinized(LowerRule(rules, rules.body(rule), fragments, budget), budget);
  }
  Join(fragments);
  Prune(budget.deadline);
  FindNullable();
  Order(rules);
}

/// One numbering of the states of all rules that are called, by way of the root.
void Automaton::Join(const std::vector<Fragment>& fragments) {
  start_.assign(fragments.size(), -1);
  std::vector<size_t> used = {static_cast<size_t>(root_)};
  int32_t states = 0;
  start_[used[0]] = 0;
  for (size_t i = 0; i < used.size(); ++i) {
    start_[used[i]] = states;
    states += static_cast<int32_t>(fragments[used[i]].size());
    for (const FragmentState& state : fragments[used[i]]) {
      for (const CallEdge& call : state.calls) {
        if (start_[static_cast<size_t>(call.rule)] >= 0) continue;
        start_[static_cast<size_t>(call.rule)] = 0;
        used.push_back(static_cast<size_t>(call.rule));
      }
    }
  }
  edge_begin_ = call_begin_ = {0};
  for (const size_t rule : used) {
    for (const FragmentState& state : fragments[rule]) {
      for (Edge edge : state.edges) {
        edge.target += start_[rule];
        edges_.push_back(edge);
      }
      for (CallEdge call : state.calls) {
        call.target += start_[rule];
        calls_.push_back(call);
      }
      accepting_.push_back(state.accepting);
      edge_begin_.push_back(static_cast<uint32_t>(edges_.size()));
      call_begin_.push_back(static_cast<uint32_t>(calls_.size()));
    }
  }
}

/// Takes out what leads to no end: a sequence of bytes could else run into a place from which
/// nothing completes it.
void Automaton::Prune(Deadline& deadline) {
  const auto count = static_cast<size_t>(states());
  std::vector<std::vector<int32_t>> before(count);  // who depends on a state
  for (int32_t state = 0; state < states(); ++state) {
    for (const Edge& edge : edges(state)) {
      before[static_cast<size_t>(edge.target)].push_back(state);
    }
    for (const CallEdge& call : calls(state)) {
      before[static_cast<size_t>(call.target)].push_back(state);
      before[static_cast<size_t>(start(call.rule))].push_back(state);
    }
  }
  std::vector<bool> ends(count);
  const auto can_end = [&](int32_t state) { return ends[static_cast<size_t>(state)]; };
  const auto edge_ends = [&](const Edge& edge) { return can_end(edge.target); };
  const auto call_ends = [&](const CallEdge& call) {
    return can_end(call.target) && can_end(start(call.rule));
  };
  std::vector<int32_t> open;
  for (int32_t state = 0; state < states(); ++state) {
    if (accepting(state)) {
      ends[static_cast<size_t>(state)] = true;
      open.push_back(state);
    }
  }
  while (!open.empty()) {
    deadline.Check();
    const int32_t state = open.back();
    open.pop_back();
    for (const int32_t one : before[static_cast<size_t>(state)]) {
      if (can_end(one)) continue;
      if (std::ranges::any_of(edges(one), edge_ends) ||
          std::ranges::any_of(calls(one), call_ends)) {
        ends[static_cast<size_t>(one)] = true;
        open.push_back(one);
      }
    }
  }
  if (!can_end(start(root_))) {
    throw Error(ErrorCode::kInvalidArgument,
                "nothing matches the grammar: every way through it leads back into itself or into "
                "an empty set");
  }
  std::vector<Edge> kept_edges;
  std::vector<CallEdge> kept_calls;
  std::vector<uint32_t> edge_begin = {0};
  std::vector<uint32_t> call_begin = {0};
  for (int32_t state = 0; state < states(); ++state) {
    std::ranges::copy_if(edges(state), std::back_inserter(kept_edges), edge_ends);
    std::ranges::copy_if(calls(state), std::back_inserter(kept_calls), call_ends);
    edge_begin.push_back(static_cast<uint32_t>(kept_edges.size()));
    call_begin.push_back(static_cast<uint32_t>(kept_calls.size()));
  }
  edges_.swap(kept_edges);
  calls_.swap(kept_calls);
  edge_begin_.swap(edge_begin);
  call_begin_.swap(call_begin);
}

void Automaton::FindNullable() {
  const auto count = static_cast<size_t>(states());
  std::vector<std::vector<int32_t>> before(count);
  for (int32_t state = 0; state < states(); ++state) {
    for (const CallEdge& call : calls(state)) {
      before[static_cast<size_t>(call.target)].push_back(state);
      before[static_cast<size_t>(start(call.rule))].push_back(state);
    }
  }
  std::vector<bool> empty = accepting_;  // reaches the end of its rule without a byte
  const auto is_empty = [&](const CallEdge& call) {
    return empty[static_cast<size_t>(call.target)] && empty[static_cast<size_t>(start(call.rule))];
  };
  std::vector<int32_t> open;
  for (int32_t state = 0; state < states(); ++state) {
    if (accepting(state)) open.push_back(state);
  }
  while (!open.empty()) {
    const int32_t state = open.back();
    open.pop_back();
    for (const int32_t one : before[static_cast<size_t>(state)]) {
      if (empty[static_cast<size_t>(one)] || !std::ranges::any_of(calls(one), is_empty)) continue;
      empty[static_cast<size_t>(one)] = true;
      open.push_back(one);
    }
  }
  for (const int32_t first : start_) {
    nullable_.push_back(first >= 0 && empty[static_cast<size_t>(first)]);
  }
}

/// Numbers the rules so that each comes before those that it calls before it reads anything. Where
/// that cannot be, a rule calls itself so.
void Automaton::Order(const Rules& rules) {
  struct Open {
    RuleId rule;
    std::vector<RuleId> called;
    size_t next = 0;
  };
  std::vector<bool> seen(static_cast<size_t>(states()));
  const auto called_first = [&](RuleId rule) {
    std::vector<RuleId> called;
    std::vector<int32_t> open = {start(rule)};
    while (!open.empty()) {
      const int32_t state = open.back();
      open.pop_back();
      for (const CallEdge& call : calls(state)) {
        called.push_back(call.rule);
        if (!nullable(call.rule) || seen[static_cast<size_t>(call.target)]) continue;
        seen[static_cast<size_t>(call.target)] = true;  // a state is of one rule
        open.push_back(call.target);
      }
    }
    return called;
  };
  enum : uint8_t { kNew, kOpen, kClosed };
  std::vector<uint8_t> mark(start_.size(), kNew);
  order_.assign(start_.size(), 0);
  auto number = static_cast<int32_t>(start_.size());
  std::vector<Open> stack;
  for (RuleId first = 0; first < static_cast<RuleId>(start_.size()); ++first) {
    if (start(first) < 0 || mark[static_cast<size_t>(first)] != kNew) continue;
    mark[static_cast<size_t>(first)] = kOpen;
    stack.push_back({first, called_first(first)});
    while (!stack.empty()) {
      Open& top = stack.back();
      if (top.next == top.called.size()) {
        mark[static_cast<size_t>(top.rule)] = kClosed;
        order_[static_cast<size_t>(top.rule)] = --number;
        stack.pop_back();
        continue;
      }
      const RuleId rule = top.called[top.next++];
      if (mark[static_cast<size_t>(rule)] == kOpen) {
        throw Error(ErrorCode::kInvalidArgument,
                    "rule " + Quote(rules.name(rule)) +
                        " of the grammar calls itself before it reads anything (left recursion): "
                        "write it as a repetition");
      }
      if (mark[static_cast<size_t>(rule)] == kNew) {
        mark[static_cast<size_t>(rule)] = kOpen;
        stack.push_back({rule, called_first(rule)});
      }
    }
  }
}

size_t Automaton::bytes() const {
  return edges_.size() * sizeof(Edge) + calls_.size() * sizeof(CallEdge) +
         accepting_.size() * 2 * sizeof(uint32_t);
}

}  // namespace oort::grammar
