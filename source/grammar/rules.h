// SPDX-License-Identifier: MIT
// What every kind of grammar is read into: named rules over a few kinds of expressions.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/sanitized.h"
#include "text/unicode.h"

namespace oort::grammar {

/// Grammars come from anybody: what none may exceed.
inline constexpr size_t kMostTextBytes = size_t{64} << 10;
inline constexpr int kMostDepth = 32;
inline constexpr uint32_t kMostRepeats = 1000;
inline constexpr int64_t kMostStates = 100'000;
inline constexpr int64_t kMostEdges = 2'000'000;
/// Of the thread's own time; with sanitizers the same grammar takes several times as long.
inline constexpr std::chrono::milliseconds kMostCompileTime{IsSanitized() ? 5000 : 500};
inline constexpr uint32_t kUnbounded = static_cast<uint32_t>(-1);
/// Stands in a grammar for a special token, which has no text of its own; no UTF-8 has this byte.
inline constexpr char kMarkByte = '\xff';

/// Throws kLimit where a text is too long; `what` names it.
void CheckTextSize(std::string_view text, std::string_view what);
/// Throws kLimit where {min,max} has too large a number.
void CheckRepeats(uint64_t min, uint64_t max, const std::string& what);

/// How long the work on a grammar may take, in time that this thread really runs: whether a grammar
/// is taken does not depend on what else the machine does.
class Deadline {
 public:
  explicit Deadline(std::chrono::milliseconds most) : end_(Now() + most) {}
  /// Throws kLimit where the time is over; looks at the clock every few hundred calls.
  void Check() {
    if (++calls_ % 256 == 0) Look();
  }

 private:
  static std::chrono::nanoseconds Now();
  void Look() const;
  std::chrono::nanoseconds end_;
  uint32_t calls_ = 0;
};

using ExprId = int32_t;
using RuleId = int32_t;

struct Expr {
  enum class Kind : unsigned char {
    kText,      ///< these bytes
    kSet,       ///< one character of `ranges`, in UTF-8
    kSequence,  ///< all children, one after the other; none of them: the empty text
    kChoice,    ///< one of the children; none of them: nothing matches
    kRepeat,    ///< the child, min to max times
    kCall,      ///< rule `rule`
    kJoined,    ///< members with a separator between those that are there, see Rules::Joined
  };
  Kind kind = Kind::kSequence;
  std::string text;
  text::Ranges ranges;
  std::vector<ExprId> children;
  std::vector<bool> optional;  ///< of kJoined: which children may be left out
  ExprId separator = -1;       ///< of kJoined
  ExprId rest = -1;            ///< of kJoined: behind the children, min to max times
  uint32_t min = 0, max = 0;
  RuleId rule = -1;
  int64_t weight = 1;  ///< about how many states it takes
};

/// Expressions by number: children have lower numbers than their parents, and may be shared.
class Rules {
 public:
  ExprId Text(std::string text);
  ExprId Set(text::Ranges ranges);
  ExprId Sequence(std::vector<ExprId> children);
  ExprId Choice(std::vector<ExprId> children);
  ExprId Repeat(ExprId child, uint32_t min, uint32_t max);
  ExprId Optional(ExprId child) { return Repeat(child, 0, 1); }
  ExprId Call(RuleId rule);
  /// The children in their order, some of which may be left out, then `rest` (unless -1) from min
  /// to max times, with a separator between any two that are there. No child stands there twice
  /// for that, so that nested lists do not double.
  ExprId Joined(std::vector<ExprId> children, std::vector<bool> optional, ExprId separator,
                ExprId rest, uint32_t min, uint32_t max);
  ExprId Empty() { return Sequence({}); }
  ExprId Nothing() { return Choice({}); }

  RuleId AddRule(std::string name);
  void Define(RuleId rule, ExprId body) { bodies_[static_cast<size_t>(rule)] = body; }

  /// What repeats often and is not small becomes a rule: repetitions inside of repetitions then add
  /// up instead of multiplying.
  void OutlineRepeats();

  const Expr& expr(ExprId id) const { return exprs_[static_cast<size_t>(id)]; }
  ExprId body(RuleId rule) const { return bodies_[static_cast<size_t>(rule)]; }  ///< -1: undefined
  const std::string& name(RuleId rule) const { return names_[static_cast<size_t>(rule)]; }
  RuleId rules() const { return static_cast<RuleId>(bodies_.size()); }
  ExprId exprs() const { return static_cast<ExprId>(exprs_.size()); }

  RuleId root = 0;

 private:
  ExprId Add(Expr expr);
  int64_t Weigh(const Expr& expr) const;

  std::vector<Expr> exprs_;
  std::vector<ExprId> bodies_;
  std::vector<std::string> names_;
};

/// A character set as sequences of byte ranges: each is one to four [low, high].
using ByteRange = std::pair<uint8_t, uint8_t>;
std::vector<std::vector<ByteRange>> Utf8Sequences(const text::Ranges& ranges);

}  // namespace oort::grammar
