// SPDX-License-Identifier: MIT
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/problems.h"
#include "grammar/json_text.h"
#include "grammar/sources.h"
#include "oort/error.h"
#include "text/regex_ast.h"

namespace oort::grammar {
namespace {

using text::RegexNode;
using Kind = RegexNode::Kind;

class RegexConverter {
 public:
  RegexConverter(Rules& rules, Spelling spelling, bool anchored, const std::string& what)
      : rules_(rules), spelling_(spelling), anchored_(anchored), what_(what) {}

  /// The whole pattern: anchors at its ends say what may stand around it.
  ExprId Whole(const RegexNode& node, int depth = 0) {
    CheckDepth(depth);
    if (node.kind == Kind::kAlternation) {
      std::vector<ExprId> branches;
      for (const auto& child : node.children) branches.push_back(Whole(*child, depth + 1));
      return rules_.Choice(std::move(branches));
    }
    std::vector<const RegexNode*> parts;
    if (node.kind == Kind::kSequence) {
      for (const auto& child : node.children) parts.push_back(child.get());
    } else {
      parts.push_back(&node);
    }
    bool at_begin = anchored_;
    bool at_end = anchored_;
    size_t first = 0;
    size_t last = parts.size();
    for (; first < last && IsBegin(*parts[first]); ++first) at_begin = true;
    for (; last > first && IsEnd(*parts[last - 1]); --last) at_end = true;
    std::vector<ExprId> items;
    if (!at_begin) items.push_back(Anything());
    for (size_t i = first; i < last; ++i) items.push_back(Convert(*parts[i], depth));
    if (!at_end) items.push_back(Anything());
    return rules_.Sequence(std::move(items));
  }

 private:
  static bool IsBegin(const RegexNode& node) {
    return node.kind == Kind::kLineBegin || node.kind == Kind::kTextBegin;
  }
  static bool IsEnd(const RegexNode& node) {
    return node.kind == Kind::kLineEnd || node.kind == Kind::kTextEnd;
  }

  void CheckDepth(int depth) const {
    if (depth <= kMostDepth) return;
    throw Error(ErrorCode::kLimit,
                what_ + " is nested more than " + std::to_string(kMostDepth) + " deep");
  }
  Error Unsupported(const std::string& construct) const {
    return Error(
        ErrorCode::kUnsupported,
        what_ + " has " + construct + ", which answers cannot be held to: write it without");
  }

  ExprId Convert(const RegexNode& node, int depth) {
    CheckDepth(depth);
    switch (node.kind) {
      case Kind::kEmpty: return rules_.Empty();
      case Kind::kSet: return Characters(node.ranges);
      case Kind::kSequence: return rules_.Sequence(Children(node, depth));
      case Kind::kAlternation: return rules_.Choice(Children(node, depth));
      case Kind::kRepeat: {
        if (node.mode == RegexNode::Mode::kPossessive) throw Unsupported("a possessive quantifier");
        const bool bounded = node.max != RegexNode::kUnbounded;
        CheckRepeats(node.min, bounded ? node.max : kUnbounded, what_);
        return rules_.Repeat(Convert(*node.children[0], depth + 1), node.min,
                             bounded ? node.max : kUnbounded);
      }
      case Kind::kAtomic: throw Unsupported("an atomic group");
      case Kind::kLook: throw Unsupported("a look-ahead or look-behind");
      case Kind::kWordBoundary: throw Unsupported("a word boundary");
      case Kind::kLineBegin:
      case Kind::kLineEnd:
      case Kind::kTextBegin:
      case Kind::kTextEnd:
      case Kind::kTextEndOrNewline: break;
    }
    throw Unsupported("an anchor that is not at its begin or end");
  }

  std::vector<ExprId> Children(const RegexNode& node, int depth) {
    std::vector<ExprId> out;
    for (const auto& child : node.children) out.push_back(Convert(*child, depth + 1));
    return out;
  }

  ExprId Characters(const text::Ranges& ranges) {
    return spelling_ == Spelling::kPlain ? rules_.Set(ranges) : JsonCharacters(rules_, ranges);
  }
  ExprId Anything() { return rules_.Repeat(Characters({{0, text::kCodePoints}}), 0, kUnbounded); }

  Rules& rules_;
  Spelling spelling_;
  bool anchored_;
  const std::string& what_;
};

std::unique_ptr<RegexNode> Parse(std::string_view pattern, const std::string& what) {
  try {
    return text::ParseRegex(pattern, text::RegexDialect::kEcma);
  } catch (const Error& error) {
    const ErrorCode code =
        error.code() == ErrorCode::kInvalidModel ? ErrorCode::kInvalidArgument : error.code();
    throw Error(code, what + ": " + error.what());
  }
}

}  // namespace

ExprId RegexExpr(Rules& rules, std::string_view pattern, Spelling spelling, bool anchored,
                 const std::string& what) {
  CheckTextSize(pattern, what);
  return RegexConverter(rules, spelling, anchored, what).Whole(*Parse(pattern, what));
}

Rules ReadRegex(std::string_view pattern) {
  Rules rules;
  rules.root = rules.AddRule("regular expression");
  rules.Define(rules.root, RegexExpr(rules, pattern, Spelling::kPlain, true, "the regex"));
  return rules;
}

}  // namespace oort::grammar
