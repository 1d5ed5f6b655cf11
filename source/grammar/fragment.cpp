// SPDX-License-Identifier: MIT
#include "grammar/fragment.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>

#include "oort/error.h"

namespace oort::grammar {
namespace {

constexpr size_t kAlwaysInlined = 8;      // states
constexpr size_t kInlinedIfBounded = 20;  // states of a rule whose texts have a greatest length

Error TooLarge(const char* what, int64_t most) {
  return Error(ErrorCode::kLimit, std::string("the grammar takes more than ") +
                                      std::to_string(most) + " " + what + ": make it smaller");
}

/// Whether no state can be reached from itself. Fragments are numbered as they are found, so a
/// depth-first search decides it.
bool IsAcyclic(const Fragment& fragment) {
  enum : uint8_t { kNew, kOpen, kClosed };
  std::vector<uint8_t> mark(fragment.size(), kNew);
  std::vector<std::pair<int32_t, size_t>> stack = {{0, 0}};
  mark[0] = kOpen;
  while (!stack.empty()) {
    auto& [state, next] = stack.back();
    const auto& edges = fragment[static_cast<size_t>(state)].edges;
    if (next == edges.size()) {
      mark[static_cast<size_t>(state)] = kClosed;
      stack.pop_back();
      continue;
    }
    const int32_t target = edges[next++].target;
    if (mark[static_cast<size_t>(target)] == kOpen) return false;
    if (mark[static_cast<size_t>(target)] == kNew) {
      mark[static_cast<size_t>(target)] = kOpen;
      stack.emplace_back(target, 0);
    }
  }
  return true;
}

bool IsInlined(const Fragment& fragment) {
  if (fragment.empty() || fragment.size() > kInlinedIfBounded) return false;
  const auto calls = [](const FragmentState& state) { return !state.calls.empty(); };
  if (std::ranges::any_of(fragment, calls)) return false;
  return fragment.size() <= kAlwaysInlined || IsAcyclic(fragment);
}

/// Thompson's construction: states with edges that read nothing, which Finish takes out again.
class Lowering {
 public:
  Lowering(const Rules& rules, const std::vector<Fragment>& done, Budget& budget)
      : rules_(rules), done_(done), budget_(budget) {}

  Fragment Run(ExprId body) {
    const int32_t begin = NewState();
    end_ = NewState();
    Lower(body, begin, end_);
    return Finish(begin);
  }

 private:
  struct State {
    FragmentState own;
    std::vector<int32_t> empty;  ///< edges that read nothing
  };

  int32_t NewState() {
    budget_.deadline.Check();
    budget_.AddStates(1);
    states_.emplace_back();
    return static_cast<int32_t>(states_.size()) - 1;
  }
  State& at(int32_t state) { return states_[static_cast<size_t>(state)]; }
  void Link(int32_t from, int32_t to) {
    if (from != to) at(from).empty.push_back(to);
  }

  void Lower(ExprId id, int32_t from, int32_t to) {
    const Expr& e = rules_.expr(id);
    switch (e.kind) {
      case Expr::Kind::kText: return LowerText(e.text, from, to);
      case Expr::Kind::kSet: return LowerSet(e.ranges, from, to);
      case Expr::Kind::kSequence: {
        for (size_t i = 0; i < e.children.size(); ++i) {
          const int32_t next = i + 1 == e.children.size() ? to : NewState();
          Lower(e.children[i], from, next);
          from = next;
        }
        if (e.children.empty()) Link(from, to);
        return;
      }
      case Expr::Kind::kChoice: {
        for (const ExprId child : e.children) {
          // Of its own, as a loop that begins a child would else lead into the others.
          const int32_t begin = NewState();
          Link(from, begin);
          Lower(child, begin, to);
        }
        return;
      }
      case Expr::Kind::kRepeat: return LowerRepeat(e, from, to);
      case Expr::Kind::kCall: return LowerCall(e.rule, from, to);
      case Expr::Kind::kJoined: return LowerJoined(e, from, to);
    }
  }

  void LowerText(std::string_view text, int32_t from, int32_t to) {
    if (text.empty()) Link(from, to);
    for (size_t i = 0; i < text.size(); ++i) {
      const int32_t next = i + 1 == text.size() ? to : NewState();
      const auto byte = static_cast<uint8_t>(text[i]);
      at(from).own.edges.push_back({byte, byte, next});
      from = next;
    }
  }

  /// Characters of several bytes mostly end in any continuation bytes: those share their states.
  void LowerSet(const text::Ranges& ranges, int32_t from, int32_t to) {
    std::array<int32_t, 4> any = {to, -1, -1, -1};  // from where so many continuation bytes follow
    constexpr ByteRange kAny{0x80, 0xBF};
    for (const auto& sequence : Utf8Sequences(ranges)) {
      budget_.AddEdges(1);
      size_t free = 0;
      while (free + 1 < sequence.size() && sequence[sequence.size() - 1 - free] == kAny) ++free;
      for (size_t i = 1; i <= free; ++i) {
        if (any[i] >= 0) continue;
        any[i] = NewState();
        at(any[i]).own.edges.push_back({kAny.first, kAny.second, any[i - 1]});
      }
      int32_t state = from;
      const size_t fixed = sequence.size() - free;
      for (size_t i = 0; i < fixed; ++i) {
        const int32_t next = i + 1 == fixed ? any[free] : NewState();
        at(state).own.edges.push_back({sequence[i].first, sequence[i].second, next});
        state = next;
      }
    }
  }

  void LowerRepeat(const Expr& e, int32_t from, int32_t to) {
    int32_t state = NewState();
    Link(from, state);
    const uint32_t copies = e.max == kUnbounded ? e.min : e.max;
    for (uint32_t i = 0; i < copies; ++i) {
      if (i >= e.min) Link(state, to);
      const int32_t next = NewState();
      Lower(e.children[0], state, next);
      state = next;
    }
    Link(state, to);
    if (e.max == kUnbounded) Lower(e.children[0], state, state);
  }

  void LowerCall(RuleId rule, int32_t from, int32_t to) {
    const Fragment& body = done_[static_cast<size_t>(rule)];
    if (!IsInlined(body)) {
      at(from).own.calls.push_back({rule, to});
      return;
    }
    const auto first = static_cast<int32_t>(states_.size());
    for (size_t i = 0; i < body.size(); ++i) NewState();
    for (size_t i = 0; i < body.size(); ++i) {
      const int32_t copy = first + static_cast<int32_t>(i);
      for (Edge edge : body[i].edges) {
        edge.target += first;
        at(copy).own.edges.push_back(edge);
      }
      if (body[i].accepting) Link(copy, to);
    }
    Link(from, first);
  }

  /// Two rows of states: nothing was there yet, something was. A member is entered from both, from
  /// the second by way of the separator, and leads into the second.
  void LowerJoined(const Expr& e, int32_t from, int32_t to) {
    int32_t nothing = NewState();  // -1: something was there for sure
    int32_t something = -1;        // -1: cannot have been
    Link(from, nothing);
    const auto member = [&](ExprId child, bool optional) {
      const int32_t enter = NewState();
      const int32_t leave = NewState();
      if (nothing >= 0) Link(nothing, enter);
      if (something >= 0) Lower(e.separator, something, enter);
      Lower(child, enter, leave);
      if (optional && something >= 0) Link(something, leave);
      something = leave;
      if (!optional) nothing = -1;
    };
    for (size_t i = 0; i < e.children.size(); ++i) member(e.children[i], e.optional[i]);
    const uint32_t copies = e.max == kUnbounded ? e.min : e.max;
    for (uint32_t i = 0; i < copies; ++i) {
      if (i >= e.min) Leave(nothing, something, to);
      member(e.rest, false);
    }
    if (e.max == kUnbounded) {
      member(e.rest, true);
      const int32_t again = NewState();
      Lower(e.separator, something, again);
      Lower(e.rest, again, something);
    }
    Leave(nothing, something, to);
  }
  void Leave(int32_t nothing, int32_t something, int32_t to) {
    if (nothing >= 0) Link(nothing, to);
    if (something >= 0) Link(something, to);
  }

  /// What can be reached from `begin`, each state with the edges of all that it reaches by nothing.
  Fragment Finish(int32_t begin) {
    std::vector<int32_t> number(states_.size(), -1);
    std::vector<int32_t> seen(states_.size(), -1);
    std::vector<int32_t> found = {begin};
    number[static_cast<size_t>(begin)] = 0;
    const auto number_of = [&](int32_t state) {
      int32_t& its = number[static_cast<size_t>(state)];
      if (its < 0) {
        its = static_cast<int32_t>(found.size());
        found.push_back(state);
      }
      return its;
    };
    Fragment out;
    std::vector<int32_t> open;
    for (size_t i = 0; i < found.size(); ++i) {
      FragmentState merged;
      open.assign(1, found[i]);
      seen[static_cast<size_t>(found[i])] = static_cast<int32_t>(i);
      while (!open.empty()) {
        budget_.deadline.Check();
        const State& state = at(open.back());
        if (open.back() == end_) merged.accepting = true;
        open.pop_back();
        for (Edge edge : state.own.edges) {
          edge.target = number_of(edge.target);
          merged.edges.push_back(edge);
        }
        for (CallEdge call : state.own.calls) {
          call.target = number_of(call.target);
          merged.calls.push_back(call);
        }
        for (const int32_t next : state.empty) {
          if (seen[static_cast<size_t>(next)] == static_cast<int32_t>(i)) continue;
          seen[static_cast<size_t>(next)] = static_cast<int32_t>(i);
          open.push_back(next);
        }
      }
      SortUnique(merged.edges);
      SortUnique(merged.calls);
      budget_.AddEdges(static_cast<int64_t>(merged.edges.size() + merged.calls.size()));
      out.push_back(std::move(merged));
    }
    budget_.states -= static_cast<int64_t>(states_.size());
    budget_.AddStates(static_cast<int64_t>(out.size()));
    return out;
  }

  template <typename T>
  static void SortUnique(std::vector<T>& list) {
    std::ranges::sort(list);
    list.erase(std::unique(list.begin(), list.end()), list.end());
  }

  const Rules& rules_;
  const std::vector<Fragment>& done_;
  Budget& budget_;
  std::vector<State> states_;
  int32_t end_ = 0;
};

/// The subset construction; rules that are called are symbols like bytes.
class Determinizer {
 public:
  Determinizer(const Fragment& from, Budget& budget) : from_(from), budget_(budget) {}

  /// False where it takes many more states than there were.
  bool Run(Fragment& out) {
    const size_t most = 2 * from_.size() + 64;
    Number({0});
    for (size_t i = 0; i < subsets_.size(); ++i) {
      if (subsets_.size() > most) return false;
      out.push_back(Merge(subsets_[i]->first));
    }
    return true;
  }

 private:
  using Subset = std::vector<int32_t>;

  int32_t Number(Subset subset) {
    const auto [at, added] =
        numbers_.try_emplace(std::move(subset), static_cast<int32_t>(subsets_.size()));
    if (added) subsets_.push_back(at);
    return at->second;
  }

  FragmentState Merge(const Subset& subset) {
    FragmentState out;
    std::map<RuleId, Subset> calls;
    for (Subset& targets : by_byte_) targets.clear();
    for (const int32_t state : subset) {
      budget_.deadline.Check();
      const FragmentState& one = from_[static_cast<size_t>(state)];
      out.accepting |= one.accepting;
      for (const CallEdge& call : one.calls) calls[call.rule].push_back(call.target);
      for (const Edge& edge : one.edges) {
        for (size_t byte = edge.low; byte <= edge.high; ++byte)
          by_byte_[byte].push_back(edge.target);
      }
    }
    const auto tidy = [](Subset& targets) {
      std::ranges::sort(targets);
      targets.erase(std::unique(targets.begin(), targets.end()), targets.end());
    };
    for (size_t byte = 0; byte < 256; ++byte) {
      Subset& targets = by_byte_[byte];
      if (targets.empty()) continue;
      tidy(targets);
      const auto low = static_cast<uint8_t>(byte);
      if (byte > 0 && targets == by_byte_[byte - 1]) {
        out.edges.back().high = low;
      } else {
        out.edges.push_back({low, low, Number(targets)});
      }
    }
    for (auto& [rule, targets] : calls) {
      tidy(targets);
      out.calls.push_back({rule, Number(std::move(targets))});
    }
    return out;
  }

  const Fragment& from_;
  Budget& budget_;
  std::array<Subset, 256> by_byte_;
  std::map<Subset, int32_t> numbers_;
  std::vector<std::map<Subset, int32_t>::const_iterator> subsets_;
};

}  // namespace

void Budget::AddStates(int64_t count) {
  states += count;
  if (states > kMostStates) throw TooLarge("states", kMostStates);
}

void Budget::AddEdges(int64_t count) {
  edges += count;
  if (edges > kMostEdges) throw TooLarge("transitions", kMostEdges);
}

Fragment LowerRule(const Rules& rules, ExprId body, const std::vector<Fragment>& done,
                   Budget& budget) {
  return Lowering(rules, done, budget).Run(body);
}

Fragment Determinized(Fragment fragment, Budget& budget) {
  Fragment out;
  if (!Determinizer(fragment, budget).Run(out)) return fragment;
  budget.AddStates(static_cast<int64_t>(out.size()) - static_cast<int64_t>(fragment.size()));
  return out;
}

}  // namespace oort::grammar
