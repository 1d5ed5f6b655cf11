// SPDX-License-Identifier: MIT
// What a grammar means, written as plainly as possible: every way is tried.
#pragma once

#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "grammar/rules.h"
#include "text/utf8.h"

namespace oort::grammar {

class ReferenceMatcher {
 public:
  ReferenceMatcher(const Rules& rules, std::string_view text) : rules_(rules), text_(text) {
    complete_ = Call(rules.root, 0).contains(text.size());
  }
  bool complete() const { return complete_; }
  /// Something could follow: some way came to the end of the text and wanted more.
  bool open() const { return wanted_more_; }

 private:
  using Ends = std::set<size_t>;

  Ends Call(RuleId rule, size_t at) {
    const auto known = calls_.find({rule, at});
    if (known != calls_.end()) return known->second;
    Ends ends = Match(rules_.body(rule), at);
    return calls_[{rule, at}] = std::move(ends);
  }

  Ends Match(ExprId id, size_t at) {
    const Expr& e = rules_.expr(id);
    switch (e.kind) {
      case Expr::Kind::kText: return Text(e.text, at);
      case Expr::Kind::kSet: return Set(e.ranges, at);
      case Expr::Kind::kSequence: {
        Ends ends = {at};
        for (const ExprId child : e.children) ends = Each(ends, child);
        return ends;
      }
      case Expr::Kind::kChoice: {
        Ends ends;
        for (const ExprId child : e.children) ends.merge(Match(child, at));
        return ends;
      }
      case Expr::Kind::kRepeat: return Repeat(e, at);
      case Expr::Kind::kCall: return Call(e.rule, at);
      case Expr::Kind::kJoined: return Joined(e, at);
    }
    return {};
  }

  Ends Each(const Ends& from, ExprId id) {
    Ends ends;
    for (const size_t at : from) ends.merge(Match(id, at));
    return ends;
  }

  Ends Text(std::string_view wanted, size_t at) {
    const std::string_view rest = text_.substr(at);
    if (rest.starts_with(wanted)) return {at + wanted.size()};
    if (wanted.starts_with(rest)) wanted_more_ = true;
    return {};
  }

  Ends Set(const text::Ranges& ranges, size_t at) {
    for (const auto& [begin, end] : ranges) {
      for (uint32_t c = begin; c < end; ++c) {
        const std::string one = text::ToUtf8(c);
        const Ends ends = Text(one, at);
        if (!ends.empty()) return ends;
      }
    }
    return {};
  }

  Ends Repeat(const Expr& e, size_t at) {
    Ends all;
    Ends ends = {at};
    std::set<Ends> seen;
    for (uint32_t i = 0; !ends.empty(); ++i) {
      if (i >= e.min) all.insert(ends.begin(), ends.end());
      if (i == e.max || (i >= e.min && !seen.insert(ends).second)) break;
      ends = Each(ends, e.children[0]);
    }
    return all;
  }

  /// Pairs of an end and whether something was there.
  Ends Joined(const Expr& e, size_t at) {
    using Places = std::set<std::pair<size_t, bool>>;
    const auto with = [&](const Places& from, ExprId child) {
      Places out;
      for (const auto& [place, any] : from) {
        const Ends enter = any ? Match(e.separator, place) : Ends{place};
        for (const size_t end : Each(enter, child)) out.emplace(end, true);
      }
      return out;
    };
    Places places = {{at, false}};
    for (size_t i = 0; i < e.children.size(); ++i) {
      Places next = with(places, e.children[i]);
      if (e.optional[i]) next.insert(places.begin(), places.end());
      places = std::move(next);
    }
    Ends all;
    for (uint32_t i = 0; !places.empty(); ++i) {
      if (i >= e.min) {
        for (const auto& [place, any] : places) all.insert(place);
      }
      if (i == e.max || i > text_.size() + e.min) break;
      places = with(places, e.rest);
    }
    return all;
  }

  const Rules& rules_;
  std::string_view text_;
  bool wanted_more_ = false;
  bool complete_ = false;
  std::map<std::pair<RuleId, size_t>, Ends> calls_;
};

}  // namespace oort::grammar
