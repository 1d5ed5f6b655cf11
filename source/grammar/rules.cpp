// SPDX-License-Identifier: MIT
#include "grammar/rules.h"

#include <time.h>

#include <algorithm>

#include "oort/error.h"
#include "text/utf8.h"

namespace oort::grammar {
namespace {

constexpr int64_t kMostWeight = int64_t{1} << 40;
constexpr ExprId kMostExprs = 200'000;
constexpr int64_t kSmallWeight = 8;  // of what is copied for each repetition

int64_t SaturatedSum(int64_t a, int64_t b) { return std::min(a + b, kMostWeight); }
int64_t SaturatedProduct(int64_t a, int64_t b) {
  return a > 0 && b > kMostWeight / a ? kMostWeight : a * b;
}

/// Appends the sequences of [low, high], whose characters all have `length` bytes.
void SplitRange(uint32_t low, uint32_t high, size_t length,
                std::vector<std::vector<ByteRange>>& out) {
  // Bytes behind the first differ freely only where the ones before are equal: cut until they are.
  for (size_t i = 1; i < length; ++i) {
    const uint32_t mask = (uint32_t{1} << (6 * i)) - 1;
    if ((low & ~mask) == (high & ~mask)) continue;
    if ((low & mask) != 0) {
      SplitRange(low, low | mask, length, out);
      SplitRange((low | mask) + 1, high, length, out);
      return;
    }
    if ((high & mask) != mask) {
      SplitRange(low, (high & ~mask) - 1, length, out);
      SplitRange(high & ~mask, high, length, out);
      return;
    }
  }
  const std::string first = text::ToUtf8(low);
  const std::string last = text::ToUtf8(high);
  std::vector<ByteRange> sequence;
  for (size_t i = 0; i < length; ++i) {
    sequence.emplace_back(static_cast<uint8_t>(first[i]), static_cast<uint8_t>(last[i]));
  }
  out.push_back(std::move(sequence));
}

}  // namespace

void CheckTextSize(std::string_view text, std::string_view what) {
  if (text.size() <= kMostTextBytes) return;
  throw Error(ErrorCode::kLimit, std::string(what) + " has " + std::to_string(text.size()) +
                                     " bytes; at most " + std::to_string(kMostTextBytes) +
                                     " are taken");
}

void CheckRepeats(uint64_t min, uint64_t max, const std::string& what) {
  if (min > kMostRepeats || (max != kUnbounded && max > kMostRepeats)) {
    throw Error(ErrorCode::kLimit, what + " repeats more than " + std::to_string(kMostRepeats) +
                                       " times, which is the most that is taken");
  }
  if (min > max) {
    throw Error(ErrorCode::kInvalidArgument, what + " repeats at least " + std::to_string(min) +
                                                 " and at most " + std::to_string(max) +
                                                 " times, which nothing can");
  }
}

std::chrono::nanoseconds Deadline::Now() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

void Deadline::Look() const {
  if (Now() < end_) return;
  throw Error(ErrorCode::kLimit, "the grammar takes too long to compile: make it smaller");
}

int64_t Rules::Weigh(const Expr& e) const {
  const auto weight = [&](ExprId id) { return id < 0 ? 0 : expr(id).weight; };
  const int64_t copies = e.max == kUnbounded ? int64_t{e.min} + 1 : int64_t{e.max};
  int64_t sum = 1;
  for (const ExprId child : e.children) sum = SaturatedSum(sum, weight(child));
  switch (e.kind) {
    case Expr::Kind::kText: return static_cast<int64_t>(e.text.size()) + 1;
    case Expr::Kind::kSet: {
      const bool ascii = e.ranges.empty() || e.ranges.back().second <= 0x80;
      return ascii ? 2 : 8 + 2 * static_cast<int64_t>(e.ranges.size());
    }
    case Expr::Kind::kCall: return 1;
    case Expr::Kind::kSequence:
    case Expr::Kind::kChoice: return sum;
    case Expr::Kind::kRepeat: return SaturatedProduct(copies, sum);
    case Expr::Kind::kJoined: {
      const int64_t separators = static_cast<int64_t>(e.children.size()) + copies;
      sum = SaturatedSum(sum, SaturatedProduct(separators, weight(e.separator)));
      return SaturatedSum(sum, SaturatedProduct(copies, weight(e.rest)));
    }
  }
  return sum;
}

ExprId Rules::Add(Expr expr) {
  if (exprs() >= kMostExprs) throw Error(ErrorCode::kLimit, "the grammar is too large");
  expr.weight = Weigh(expr);
  exprs_.push_back(std::move(expr));
  return exprs() - 1;
}

ExprId Rules::Text(std::string text) {
  Expr expr;
  expr.kind = Expr::Kind::kText;
  expr.text = std::move(text);
  return Add(std::move(expr));
}

ExprId Rules::Set(text::Ranges ranges) {
  Expr expr;
  expr.kind = Expr::Kind::kSet;
  // Surrogates are no characters of a text.
  expr.ranges = text::Intersection(text::Normalized(std::move(ranges)),
                                   {{0, 0xD800}, {0xE000, text::kCodePoints}});
  return Add(std::move(expr));
}

ExprId Rules::Sequence(std::vector<ExprId> children) {
  if (children.size() == 1) return children[0];
  Expr expr;
  expr.kind = Expr::Kind::kSequence;
  expr.children = std::move(children);
  return Add(std::move(expr));
}

ExprId Rules::Choice(std::vector<ExprId> children) {
  if (children.size() == 1) return children[0];
  Expr expr;
  expr.kind = Expr::Kind::kChoice;
  expr.children = std::move(children);
  return Add(std::move(expr));
}

ExprId Rules::Repeat(ExprId child, uint32_t min, uint32_t max) {
  Expr expr;
  expr.kind = Expr::Kind::kRepeat;
  expr.min = min;
  expr.max = max;
  expr.children = {child};
  return Add(std::move(expr));
}

ExprId Rules::Call(RuleId rule) {
  Expr expr;
  expr.kind = Expr::Kind::kCall;
  expr.rule = rule;
  return Add(std::move(expr));
}

ExprId Rules::Joined(std::vector<ExprId> children, std::vector<bool> optional, ExprId separator,
                     ExprId rest, uint32_t min, uint32_t max) {
  Expr expr;
  expr.kind = Expr::Kind::kJoined;
  expr.children = std::move(children);
  expr.optional = std::move(optional);
  expr.separator = separator;
  expr.rest = rest;
  expr.min = rest < 0 ? 0 : min;
  expr.max = rest < 0 ? 0 : max;
  return Add(std::move(expr));
}

void Rules::OutlineRepeats() {
  const ExprId count = exprs();
  for (ExprId id = 0; id < count; ++id) {
    const auto at = static_cast<size_t>(id);
    const Expr::Kind kind = exprs_[at].kind;
    ExprId repeated = -1;
    if (kind == Expr::Kind::kRepeat) repeated = exprs_[at].children[0];
    if (kind == Expr::Kind::kJoined) repeated = exprs_[at].rest;
    const uint32_t max = exprs_[at].max;
    const uint32_t copies = max == kUnbounded ? exprs_[at].min + 1 : max;
    if (repeated >= 0 && copies > 2 && expr(repeated).weight > kSmallWeight) {
      const RuleId rule = AddRule("a part that repeats");
      Define(rule, repeated);
      const ExprId call = Call(rule);
      (kind == Expr::Kind::kRepeat ? exprs_[at].children[0] : exprs_[at].rest) = call;
    }
    exprs_[at].weight = Weigh(exprs_[at]);
  }
}

RuleId Rules::AddRule(std::string name) {
  bodies_.push_back(-1);
  names_.push_back(std::move(name));
  return rules() - 1;
}

std::vector<std::vector<ByteRange>> Utf8Sequences(const text::Ranges& ranges) {
  // Where the number of bytes of a character changes.
  constexpr uint32_t kEnds[] = {0x80, 0x800, 0x10000, text::kCodePoints};
  std::vector<std::vector<ByteRange>> out;
  for (const auto& [begin, end] : ranges) {
    uint32_t low = begin;
    for (size_t length = 1; length <= 4 && low < end; ++length) {
      const uint32_t stop = std::min(end, kEnds[length - 1]);
      if (low >= stop) continue;
      SplitRange(low, stop - 1, length, out);
      low = stop;
    }
  }
  return out;
}

}  // namespace oort::grammar
