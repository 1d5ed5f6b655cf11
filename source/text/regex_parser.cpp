// SPDX-License-Identifier: MIT
#include <algorithm>
#include <string>

#include "oort/error.h"
#include "text/regex_ast.h"
#include "text/utf8.h"

namespace oort::text {
namespace {

using Kind = RegexNode::Kind;
using NodePtr = std::unique_ptr<RegexNode>;

constexpr int kMaxDepth = 100;
constexpr uint32_t kMaxRepeat = 100000;  // Oniguruma's limit

NodePtr MakeNode(Kind kind) {
  auto node = std::make_unique<RegexNode>();
  node->kind = kind;
  return node;
}

NodePtr MakeSet(Ranges ranges) {
  auto node = MakeNode(Kind::kSet);
  node->ranges = std::move(ranges);
  return node;
}

struct Flags {
  bool ignore_case = false;
  bool dot_all = false;
  bool extended = false;
};

class Parser {
 public:
  Parser(std::string_view pattern, RegexDialect dialect)
      : pattern_(pattern), ecma_(dialect == RegexDialect::kEcma) {
    if (!IsValidUtf8(pattern)) throw Bad("it is not valid UTF-8");
    for (size_t at = 0; at < pattern.size();) text_.push_back(NextCodePoint(pattern, at));
  }

  NodePtr Parse() {
    NodePtr node = Alternation(Flags(), 0);
    if (!AtEnd()) throw Bad("an unmatched ')'");
    return node;
  }

 private:
  Error Bad(const std::string& what) const {
    return Error(ErrorCode::kInvalidModel,
                 "the regular expression '" + std::string(pattern_) + "' has " + what);
  }
  Error Unknown(const std::string& what) const {
    return Error(ErrorCode::kUnsupported, "the regular expression '" + std::string(pattern_) +
                                              "' uses " + what + ", which is not supported");
  }

  bool AtEnd() const { return at_ == text_.size(); }
  uint32_t Peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : kCodePoints;
  }
  bool Take(uint32_t c) {
    if (Peek() != c) return false;
    ++at_;
    return true;
  }
  bool TakeText(std::string_view text) {
    for (size_t i = 0; i < text.size(); ++i) {
      if (Peek(i) != static_cast<unsigned char>(text[i])) return false;
    }
    at_ += text.size();
    return true;
  }
  uint32_t Next() {
    if (AtEnd()) throw Bad("an unexpected end");
    return text_[at_++];
  }

  /// (?i) within a group holds to its end, also across '|'.
  NodePtr Alternation(Flags flags, int depth) {
    if (depth > kMaxDepth) throw Bad("too deep nesting");
    std::vector<NodePtr> branches;
    branches.push_back(Sequence(flags, depth));
    while (Take('|')) branches.push_back(Sequence(flags, depth));
    if (branches.size() == 1) return std::move(branches[0]);
    auto node = MakeNode(Kind::kAlternation);
    node->children = std::move(branches);
    return node;
  }

  NodePtr Sequence(Flags& flags, int depth) {
    auto node = MakeNode(Kind::kSequence);
    while (!AtEnd() && Peek() != '|' && Peek() != ')') {
      if (flags.extended && SkipExtended()) continue;
      NodePtr item = Item(flags, depth);
      if (item == nullptr) continue;
      node->children.push_back(Quantified(std::move(item)));
    }
    if (node->children.size() == 1) return std::move(node->children[0]);
    return node;
  }

  bool SkipExtended() {
    if (Peek() == '#') {
      while (!AtEnd() && Next() != '\n') {
      }
      return true;
    }
    if (Peek() == ' ' || (Peek() >= 9 && Peek() <= 13)) {
      ++at_;
      return true;
    }
    return false;
  }

  /// Null where the item only set flags.
  NodePtr Item(Flags& flags, int depth) {
    const uint32_t c = Next();
    switch (c) {
      case '(': return Group(flags, depth);
      case '[': return MakeSet(Class(flags.ignore_case, depth));
      case '.': {
        Ranges all = {{0, kCodePoints}};
        return MakeSet(flags.dot_all ? all : Complement({{'\n', '\n' + 1}}));
      }
      case '^': return MakeNode(Kind::kLineBegin);
      case '$': return MakeNode(Kind::kLineEnd);
      case '\\': return Escape(flags);
      case '*':
      case '+':
      case '?': throw Bad("a quantifier with nothing before it");
      default: return MakeSet(Folded({{c, c + 1}}, flags));
    }
  }

  static Ranges Folded(Ranges ranges, const Flags& flags) {
    return flags.ignore_case ? WithCaseVariants(ranges) : ranges;
  }

  NodePtr Group(Flags& flags, int depth) {
    auto look = [&](bool behind, bool negated) {
      auto node = MakeNode(Kind::kLook);
      node->behind = behind;
      node->negated = negated;
      return Close(std::move(node), flags, depth);
    };
    if (!Take('?')) return Plain(flags, depth);
    if (Take(':')) return Plain(flags, depth);
    if (Take('=')) return look(false, false);
    if (Take('!')) return look(false, true);
    if (TakeText("<=")) return look(true, false);
    if (TakeText("<!")) return look(true, true);
    if (Take('>')) return Close(MakeNode(Kind::kAtomic), flags, depth);
    if (Take('#')) {
      while (Next() != ')') {
      }
      return nullptr;
    }
    if (Take('<')) {  // a name, which nothing here refers to
      while (Next() != '>') {
      }
      return Plain(flags, depth);
    }
    return FlagGroup(flags, depth);
  }

  NodePtr Plain(const Flags& flags, int depth) {
    NodePtr node = Alternation(flags, depth + 1);
    if (!Take(')')) throw Bad("an unmatched '('");
    return node;
  }

  NodePtr Close(NodePtr node, const Flags& flags, int depth) {
    node->children.push_back(Plain(flags, depth));
    return node;
  }

  NodePtr FlagGroup(Flags& flags, int depth) {
    Flags inner = flags;
    bool on = true;
    for (;;) {
      const uint32_t c = Next();
      if (c == '-') {
        on = false;
      } else if (c == 'i') {
        inner.ignore_case = on;
      } else if (c == 'm') {
        inner.dot_all = on;
      } else if (c == 'x') {
        inner.extended = on;
      } else if (c == ':') {
        return Plain(inner, depth);
      } else if (c == ')') {
        flags = inner;
        return nullptr;
      } else {
        throw Unknown("the group (?" + ToUtf8(c));
      }
    }
  }

  NodePtr Quantified(NodePtr item) {
    for (int nested = 0;; ++nested) {
      uint32_t min = 0;
      uint32_t max = RegexNode::kUnbounded;
      bool braces = false;
      if (Take('*')) {
      } else if (Take('+')) {
        min = 1;
      } else if (Take('?')) {
        max = 1;
      } else if (!Braces(min, max)) {
        return item;
      } else {
        braces = true;
      }
      if (nested > kMaxDepth) throw Bad("too many quantifiers in a row");
      auto node = MakeNode(Kind::kRepeat);
      node->min = min;
      node->max = max;
      // In Ruby's syntax '+' after braces repeats once more, and '?' after {n} makes it optional.
      if (!(braces && !ecma_) && Take('+'))
        node->mode = RegexNode::Mode::kPossessive;
      else if ((ecma_ || !(braces && min == max)) && Take('?'))
        node->mode = RegexNode::Mode::kLazy;
      node->children.push_back(std::move(item));
      item = std::move(node);
    }
  }

  /// {n}, {n,}, {n,m}, {,m}; anything else is literal.
  bool Braces(uint32_t& min, uint32_t& max) {
    if (Peek() != '{') return false;
    const size_t start = at_++;
    const bool has_min = Number(min);
    bool has_max = false;
    const bool comma = Take(',');
    if (comma) has_max = Number(max);
    if (!Take('}') || (!has_min && !has_max)) {
      at_ = start;
      return false;
    }
    if (!comma) max = min;
    if (max != RegexNode::kUnbounded && min > max) throw Bad("a repetition with min above max");
    return true;
  }

  bool Number(uint32_t& value) {
    const size_t start = at_;
    uint32_t number = 0;
    while (Peek() >= '0' && Peek() <= '9') {
      number = number * 10 + (Next() - '0');
      if (number > kMaxRepeat) throw Bad("a repetition above " + std::to_string(kMaxRepeat));
    }
    if (at_ == start) return false;
    value = number;
    return true;
  }

  NodePtr Escape(const Flags& flags) {
    const uint32_t c = Next();
    switch (c) {
      case 'A': return MakeNode(Kind::kTextBegin);
      case 'z': return MakeNode(Kind::kTextEnd);
      case 'Z': return MakeNode(Kind::kTextEndOrNewline);
      case 'b':
      case 'B': {
        auto node = MakeNode(Kind::kWordBoundary);
        node->negated = c == 'B';
        return node;
      }
      case 'R': return LineBreak();
      default: break;
    }
    if (c >= '1' && c <= '9') throw Unknown("a back reference");
    --at_;
    Ranges ranges;
    // (?i) folds the characters of a class in brackets, not those of a bare one.
    if (EscapedClass(ranges, false)) return MakeSet(std::move(ranges));
    const uint32_t literal = EscapedCharacter();
    return MakeSet(Folded({{literal, literal + 1}}, flags));
  }

  /// \R: CR LF or one line break, and no way back between them.
  static NodePtr LineBreak() {
    auto pair = MakeNode(Kind::kSequence);
    pair->children.push_back(MakeSet({{'\r', '\r' + 1}}));
    pair->children.push_back(MakeSet({{'\n', '\n' + 1}}));
    auto either = MakeNode(Kind::kAlternation);
    either->children.push_back(std::move(pair));
    either->children.push_back(MakeSet({{10, 14}, {0x85, 0x86}, {0x2028, 0x202A}}));
    auto node = MakeNode(Kind::kAtomic);
    node->children.push_back(std::move(either));
    return node;
  }

  /// \s, \p{L} and the like, after the backslash; stays put where it is another escape.
  bool EscapedClass(Ranges& ranges, bool in_brackets) {
    const uint32_t c = Peek();
    const uint32_t lower = c | 0x20;
    if (lower == 'p' && (Peek(1) == '{' || Peek(1) == '^')) {
      at_ += 1;
      if (!Take('{')) throw Bad("a \\p without '{'");
      bool negated = c == 'P';
      if (Take('^')) negated = !negated;
      std::string name;
      for (uint32_t d = Next(); d != '}'; d = Next()) AppendUtf8(name, d);
      if (!RangesOfProperty(name, in_brackets, ranges))
        throw Unknown("the property '" + name + "'");
      if (negated) ranges = Complement(ranges);
      return true;
    }
    if (lower == 's') {
      ranges = RangesOfSet(unicode::kSpace);
    } else if (lower == 'd') {
      ranges = ecma_ ? Ranges{{'0', '9' + 1}} : RangesOfSet(unicode::kDigit);
    } else if (lower == 'w') {
      const Ranges ascii = {{'0', '9' + 1}, {'A', 'Z' + 1}, {'_', '_' + 1}, {'a', 'z' + 1}};
      ranges = ecma_ ? ascii : RangesOfWord(in_brackets);
    } else if (lower == 'h' && !ecma_) {
      RangesOfPosixClass("xdigit", ranges);
    } else {
      return false;
    }
    if (c != lower) ranges = Complement(ranges);
    ++at_;
    return true;
  }

  uint32_t EscapedCharacter() {
    const uint32_t c = Next();
    switch (c) {
      case 'n': return '\n';
      case 'r': return '\r';
      case 't': return '\t';
      case 'f': return '\f';
      case 'v': return '\v';
      case 'a': return 7;
      case 'e': return 27;
      case '0': return Octal();
      case 'x': return Peek() == '{' ? BracedHex() : Hex(1, 2);
      case 'u': return Hex(4, 4);
      default: break;
    }
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (letter) throw Unknown("the escape \\" + ToUtf8(c));
    return c;
  }

  uint32_t Octal() {
    uint32_t value = 0;
    for (int i = 0; i < 2 && Peek() >= '0' && Peek() <= '7'; ++i) value = value * 8 + Next() - '0';
    return value;
  }

  static int HexDigit(uint32_t c) {
    if (c >= '0' && c <= '9') return static_cast<int>(c - '0');
    if (c >= 'a' && c <= 'f') return static_cast<int>(c - 'a' + 10);
    if (c >= 'A' && c <= 'F') return static_cast<int>(c - 'A' + 10);
    return -1;
  }

  uint32_t Hex(int least, int most) {
    uint32_t value = 0;
    int count = 0;
    while (count < most && HexDigit(Peek()) >= 0) {
      value = value * 16 + static_cast<uint32_t>(HexDigit(Next()));
      ++count;
    }
    return Checked(value, count >= least);
  }

  uint32_t BracedHex() {
    ++at_;
    uint32_t value = 0;
    int count = 0;
    for (; HexDigit(Peek()) >= 0 && count < 8; ++count) {
      value = value * 16 + static_cast<uint32_t>(HexDigit(Next()));
    }
    return Checked(value, count > 0 && Take('}'));
  }

  uint32_t Checked(uint32_t value, bool well_formed) const {
    if (!well_formed || value >= kCodePoints) throw Bad("a malformed \\x or \\u");
    return value;
  }

  /// After '['. `&&` binds weaker than anything else inside.
  Ranges Class(bool fold_case, int depth) {
    if (depth > kMaxDepth) throw Bad("too deep nesting");
    const bool negated = Take('^');
    Ranges result = {{0, kCodePoints}};
    Ranges part;
    bool first = true;
    for (;; first = false) {
      if (AtEnd()) throw Bad("an unmatched '['");
      if (Peek() == ']' && !first) {
        ++at_;
        break;
      }
      if (!ecma_ && TakeText("&&")) {
        result = Intersection(result, Normalized(std::move(part)));
        part.clear();
        continue;
      }
      ClassItem(depth, part);
    }
    result = Intersection(result, Normalized(std::move(part)));
    // Case is folded before the set is turned inside out.
    if (fold_case) result = WithCaseVariants(result);
    return negated ? Complement(result) : result;
  }

  void ClassItem(int depth, Ranges& part) {
    const auto add = [&](const Ranges& more) { part.insert(part.end(), more.begin(), more.end()); };
    if (Peek() == '[' && Peek(1) == ':' && PosixClass(part)) return;
    if (Peek() == '[' && !ecma_) {
      ++at_;
      add(Class(false, depth + 1));  // the outermost class folds all of it
      return;
    }
    if (Peek() == '\\') {
      ++at_;
      Ranges ranges;
      if (EscapedClass(ranges, true)) {
        add(ranges);
        return;
      }
      --at_;
    }
    const uint32_t low = ClassCharacter();
    const bool ends_range = !ecma_ && ((Peek(1) == '&' && Peek(2) == '&') || Peek(1) == '[');
    const bool range = Peek() == '-' && Peek(1) != ']' && Peek(1) != kCodePoints && !ends_range;
    if (!range) {
      part.emplace_back(low, low + 1);
      return;
    }
    ++at_;
    if (Peek() == '\\') {  // [a-\s]: the '-' is a character of its own
      ++at_;
      Ranges ranges;
      const bool is_class = EscapedClass(ranges, true);
      if (is_class) {
        part.emplace_back(low, low + 1);
        part.emplace_back('-', '-' + 1);
        add(ranges);
        return;
      }
      --at_;
    }
    const uint32_t high = ClassCharacter();
    if (low > high) throw Bad("an empty range in a class");
    part.emplace_back(low, high + 1);
  }

  uint32_t ClassCharacter() {
    const uint32_t c = Next();
    if (c != '\\') return c;
    if (Take('b')) return 8;
    return EscapedCharacter();
  }

  bool PosixClass(Ranges& part) {
    size_t end = at_ + 2;
    while (end + 1 < text_.size() && text_[end] != ':' && text_[end] != ']') ++end;
    if (end + 1 >= text_.size() || text_[end] != ':' || text_[end + 1] != ']') return false;
    size_t begin = at_ + 2;
    const bool negated = text_[begin] == '^';
    if (negated) ++begin;
    std::string name;
    for (size_t i = begin; i < end; ++i) AppendUtf8(name, text_[i]);
    Ranges ranges;
    if (!RangesOfPosixClass(name, ranges)) throw Unknown("the class [:" + name + ":]");
    if (negated) ranges = Complement(ranges);
    part.insert(part.end(), ranges.begin(), ranges.end());
    at_ = end + 2;
    return true;
  }

  std::string_view pattern_;
  bool ecma_;
  std::vector<uint32_t> text_;
  size_t at_ = 0;
};

}  // namespace

std::unique_ptr<RegexNode> ParseRegex(std::string_view pattern, RegexDialect dialect) {
  return Parser(pattern, dialect).Parse();
}

}  // namespace oort::text
