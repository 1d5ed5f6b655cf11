// SPDX-License-Identifier: MIT
#include <algorithm>
#include <map>

#include "oort/error.h"
#include "text/regex_ast.h"
#include "text/regex_ops.h"
#include "text/utf8.h"

namespace oort::text {

class RegexCompiler {
 public:
  RegexCompiler(Regex& regex, std::string_view pattern) : regex_(regex), pattern_(pattern) {}

  void Compile(const RegexNode& root) {
    std::vector<const RegexNode*> branches;
    if (root.kind == Kind::kAlternation && root.children.size() <= 64) {
      for (const auto& child : root.children) branches.push_back(child.get());
    } else {
      branches.push_back(&root);
    }
    for (const RegexNode* branch : branches) AddAlternative(*branch);
  }

 private:
  using Kind = RegexNode::Kind;
  using Op = Regex::Op;
  static constexpr uint32_t kUnbounded = RegexNode::kUnbounded;
  static constexpr size_t kMaxProgram = 50000;

  struct First {
    Ranges ranges;
    bool nullable;
  };
  struct Lengths {
    uint32_t min, max;
  };

  void AddAlternative(const RegexNode& branch) {
    First first = FirstOf(branch);
    if (first.nullable) first.ranges = {{0, kCodePoints}};
    const uint64_t bit = uint64_t{1} << regex_.alternatives_.size();
    regex_.all_ |= bit;
    const uint32_t pc = Here();
    regex_.alternatives_.push_back({pc, CodePointSet(first.ranges), first.nullable});
    for (unsigned char c = 0; c < 128; ++c) {
      if (regex_.alternatives_.back().first.ContainsAscii(c)) regex_.by_ascii_[c] |= bit;
    }
    Emit(branch);
    Add({Op::kAccept});
  }

  uint32_t Here() const { return static_cast<uint32_t>(regex_.program_.size()); }
  uint32_t Add(Regex::Instruction instruction) {
    if (regex_.program_.size() >= kMaxProgram) {
      throw Error(ErrorCode::kLimit,
                  "the regular expression '" + std::string(pattern_) + "' becomes too large");
    }
    regex_.program_.push_back(instruction);
    return Here() - 1;
  }
  Regex::Instruction& At(uint32_t pc) { return regex_.program_[pc]; }

  uint32_t SetOf(const Ranges& ranges) {
    const auto [entry, is_new] = sets_.emplace(ranges, regex_.sets_.size());
    if (is_new) regex_.sets_.emplace_back(ranges);
    return static_cast<uint32_t>(entry->second);
  }

  static bool IsOneCharacter(const RegexNode& node) {
    return node.kind == Kind::kSet && node.ranges.size() == 1 &&
           node.ranges[0].second - node.ranges[0].first == 1;
  }

  void Emit(const RegexNode& node) {
    switch (node.kind) {
      case Kind::kEmpty: return;
      case Kind::kSet: EmitSet(node); return;
      case Kind::kSequence:
        for (const auto& child : node.children) Emit(*child);
        return;
      case Kind::kAlternation: EmitAlternation(node); return;
      case Kind::kRepeat: EmitRepeat(node); return;
      case Kind::kAtomic: EmitPart({Op::kAtomic}, *node.children[0]); return;
      case Kind::kLook: EmitLook(node); return;
      case Kind::kLineBegin: Add({Op::kLineBegin}); return;
      case Kind::kLineEnd: Add({Op::kLineEnd}); return;
      case Kind::kTextBegin: Add({Op::kTextBegin}); return;
      case Kind::kTextEnd: Add({Op::kTextEnd}); return;
      case Kind::kTextEndOrNewline: Add({Op::kTextEndOrNewline}); return;
      case Kind::kWordBoundary:
        Add({Op::kWordBoundary, node.negated, SetOf(RangesOfSet(unicode::kWord))});
        return;
    }
  }

  void EmitSet(const RegexNode& node) {
    if (!IsOneCharacter(node)) {
      Add({Op::kSet, false, SetOf(node.ranges)});
      return;
    }
    const std::string text = ToUtf8(node.ranges[0].first);
    const auto begin = static_cast<uint32_t>(regex_.literals_.size());
    regex_.literals_ += text;
    Add({Op::kText, false, begin, static_cast<uint32_t>(text.size())});
  }

  void EmitAlternation(const RegexNode& node) {
    std::vector<uint32_t> jumps;
    for (size_t i = 0; i < node.children.size(); ++i) {
      if (i + 1 == node.children.size()) {
        Emit(*node.children[i]);
        break;
      }
      const uint32_t split = Add({Op::kSplit});
      At(split).a = Here();
      Emit(*node.children[i]);
      jumps.push_back(Add({Op::kJump}));
      At(split).b = Here();
    }
    for (const uint32_t jump : jumps) At(jump).a = Here();
  }

  void EmitPart(Regex::Instruction head, const RegexNode& child) {
    const uint32_t pc = Add(head);
    Emit(child);
    Add({Op::kAccept});
    At(pc).b = Here();
  }

  void EmitLook(const RegexNode& node) {
    if (!node.behind) {
      EmitPart({Op::kAhead, node.negated}, *node.children[0]);
      return;
    }
    const Lengths lengths = LengthsOf(*node.children[0]);
    if (lengths.max == kUnbounded) {
      throw Error(ErrorCode::kUnsupported, "the regular expression '" + std::string(pattern_) +
                                               "' looks behind without a bound");
    }
    EmitPart({Op::kBehind, node.negated, 0, 0, lengths.min, lengths.max}, *node.children[0]);
  }

  void EmitRepeat(const RegexNode& node) {
    const RegexNode& child = *node.children[0];
    if (child.kind == Kind::kSet && node.mode != RegexNode::Mode::kLazy) {
      const bool possessive = node.mode == RegexNode::Mode::kPossessive;
      Add({Op::kLoop, possessive, SetOf(child.ranges), 0, node.min, node.max});
      return;
    }
    if (node.mode == RegexNode::Mode::kPossessive) {
      const uint32_t pc = Add({Op::kAtomic});
      EmitTurns(node, child, false);
      Add({Op::kAccept});
      At(pc).b = Here();
      return;
    }
    EmitTurns(node, child, node.mode == RegexNode::Mode::kLazy);
  }

  /// A split whose first way is into the loop, or past it where it is lazy.
  uint32_t AddChoice() { return Add({Op::kSplit}); }
  void Point(uint32_t split, bool lazy, uint32_t into, uint32_t past) {
    At(split).a = lazy ? past : into;
    At(split).b = lazy ? into : past;
  }

  void EmitTurns(const RegexNode& node, const RegexNode& child, bool lazy) {
    for (uint32_t i = 0; i < node.min; ++i) Emit(child);
    if (node.max == kUnbounded) {
      const uint32_t slot = regex_.slots_++;
      const uint32_t split = AddChoice();
      const uint32_t into = Here();
      Add({Op::kMark, false, slot});
      Emit(child);
      const uint32_t moved = Add({Op::kMoved, false, slot});
      Add({Op::kJump, false, split});
      Point(split, lazy, into, Here());
      At(moved).b = Here();
      return;
    }
    std::vector<uint32_t> splits;
    for (uint32_t i = node.min; i < node.max; ++i) {
      splits.push_back(AddChoice());
      Emit(child);
    }
    for (const uint32_t split : splits) Point(split, lazy, split + 1, Here());
  }

  static First FirstOf(const RegexNode& node) {
    switch (node.kind) {
      case Kind::kSet: return {node.ranges, false};
      case Kind::kSequence: {
        First all{{}, true};
        for (const auto& child : node.children) {
          const First first = FirstOf(*child);
          all.ranges = Union(all.ranges, first.ranges);
          if (!first.nullable) return {all.ranges, false};
        }
        return all;
      }
      case Kind::kAlternation: {
        First all{{}, false};
        for (const auto& child : node.children) {
          const First first = FirstOf(*child);
          all.ranges = Union(all.ranges, first.ranges);
          all.nullable = all.nullable || first.nullable;
        }
        return all;
      }
      case Kind::kRepeat: {
        First first = FirstOf(*node.children[0]);
        first.nullable = first.nullable || node.min == 0;
        return first;
      }
      case Kind::kAtomic: return FirstOf(*node.children[0]);
      default: return {{}, true};
    }
  }

  static uint32_t Times(uint32_t a, uint32_t b) {
    if (a == 0 || b == 0) return 0;
    if (a == kUnbounded || b == kUnbounded || a > 10000 / b) return kUnbounded;
    return a * b;
  }
  static uint32_t Plus(uint32_t a, uint32_t b) {
    return a == kUnbounded || b == kUnbounded || a + b > 10000 ? kUnbounded : a + b;
  }

  static Lengths LengthsOf(const RegexNode& node) {
    Lengths out{0, 0};
    switch (node.kind) {
      case Kind::kSet: return {1, 1};
      case Kind::kSequence:
        for (const auto& child : node.children) {
          const Lengths lengths = LengthsOf(*child);
          out = {Plus(out.min, lengths.min), Plus(out.max, lengths.max)};
        }
        return out;
      case Kind::kAlternation:
        out.min = kUnbounded;
        for (const auto& child : node.children) {
          const Lengths lengths = LengthsOf(*child);
          out = {std::min(out.min, lengths.min), std::max(out.max, lengths.max)};
        }
        return out;
      case Kind::kRepeat: {
        const Lengths lengths = LengthsOf(*node.children[0]);
        return {Times(lengths.min, node.min), Times(lengths.max, node.max)};
      }
      case Kind::kAtomic: return LengthsOf(*node.children[0]);
      default: return out;
    }
  }

  Regex& regex_;
  std::string_view pattern_;
  std::map<Ranges, size_t> sets_;
};

Regex::Regex(std::string_view pattern) {
  RegexCompiler(*this, pattern).Compile(*ParseRegex(pattern));
}

Regex Regex::Literal(std::string_view text) {
  if (text.empty()) return Regex("");
  Regex regex;
  regex.literal_ = text;
  return regex;
}

}  // namespace oort::text
