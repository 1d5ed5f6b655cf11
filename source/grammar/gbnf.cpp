// SPDX-License-Identifier: MIT
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/problems.h"
#include "grammar/sources.h"
#include "oort/error.h"
#include "text/utf8.h"

namespace oort::grammar {
namespace {

bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

class GbnfReader {
 public:
  explicit GbnfReader(std::string_view text) : text_(text) {}

  Rules Read() {
    for (SkipSpace(true); !AtEnd(); SkipSpace(true)) ReadRule();
    const auto root = numbers_.find("root");
    if (root == numbers_.end()) throw Bad("no rule with the name root, with which answers begin");
    for (const auto& [name, rule] : numbers_) {
      if (rules_.body(rule) < 0)
        throw Bad("no rule with the name " + Quote(name) + ", which it uses");
    }
    rules_.root = root->second;
    return std::move(rules_);
  }

 private:
  Error Bad(const std::string& what) const {
    size_t line = 1;
    for (const char c : text_.substr(0, at_)) line += c == '\n' ? 1 : 0;
    return Error(ErrorCode::kInvalidArgument,
                 "line " + std::to_string(line) + " of the grammar: there is " + what);
  }

  bool AtEnd() const { return at_ >= text_.size(); }
  char Peek() const { return AtEnd() ? '\0' : text_[at_]; }
  bool Take(char c) {
    if (AtEnd() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void Expect(char c) {
    if (!Take(c)) throw Bad("no '" + std::string(1, c) + "' where one is needed");
  }

  /// Spaces and comments; also ends of lines where a rule goes on behind them.
  void SkipSpace(bool lines) {
    while (!AtEnd()) {
      const char c = Peek();
      if (c == '#') {
        while (!AtEnd() && Peek() != '\n' && Peek() != '\r') ++at_;
      } else if (c == ' ' || c == '\t' || (lines && (c == '\n' || c == '\r'))) {
        ++at_;
      } else {
        return;
      }
    }
  }

  std::string ReadName() {
    const size_t begin = at_;
    while (!AtEnd() && IsNameCharacter(Peek())) ++at_;
    if (at_ == begin) throw Bad("no name of a rule where one is needed, but " + Here());
    return std::string(text_.substr(begin, at_ - begin));
  }
  std::string Here() const { return AtEnd() ? "the end" : Quote(text_.substr(at_, 8)); }

  RuleId NumberOf(const std::string& name) {
    const auto found = numbers_.find(name);
    if (found != numbers_.end()) return found->second;
    return numbers_[name] = rules_.AddRule(name);
  }

  void ReadRule() {
    const std::string name = ReadName();
    const RuleId rule = NumberOf(name);
    if (rules_.body(rule) >= 0) throw Bad("a second rule with the name " + Quote(name));
    SkipSpace(false);
    if (text_.substr(at_, 3) != "::=") throw Bad("no '::=' behind the name " + Quote(name));
    at_ += 3;
    SkipSpace(true);
    rules_.Define(rule, ReadChoice(0));
    if (!AtEnd() && Peek() != '\n' && Peek() != '\r') throw Bad("something unknown: " + Here());
  }

  /// Inside of parentheses ends of lines mean nothing.
  ExprId ReadChoice(int depth) {
    if (depth > kMostDepth) {
      throw Error(ErrorCode::kLimit, "the grammar has parentheses more than " +
                                         std::to_string(kMostDepth) + " deep: use rules for them");
    }
    std::vector<ExprId> branches = {ReadSequence(depth)};
    while (Take('|')) {
      SkipSpace(true);
      branches.push_back(ReadSequence(depth));
    }
    return rules_.Choice(std::move(branches));
  }

  ExprId ReadSequence(int depth) {
    std::vector<ExprId> items;
    for (;;) {
      std::optional<ExprId> item = ReadItem(depth);
      if (!item) break;
      SkipSpace(depth > 0);
      items.push_back(ReadRepeats(*item, depth));
    }
    return rules_.Sequence(std::move(items));
  }

  std::optional<ExprId> ReadItem(int depth) {
    if (AtEnd()) return {};
    const char c = Peek();
    if (c == '"') return ReadText();
    if (c == '[') return ReadSet();
    if (Take('.')) return rules_.Set({{0, text::kCodePoints}});
    if (Take('(')) {
      SkipSpace(true);
      const ExprId group = ReadChoice(depth + 1);
      Expect(')');
      return group;
    }
    if (IsNameCharacter(c)) return rules_.Call(NumberOf(ReadName()));
    if (c == '<' || c == '!') {
      throw Error(ErrorCode::kUnsupported, "the grammar has a token (" + Here() +
                                               "), which is not supported: write its text");
    }
    return {};
  }

  ExprId ReadRepeats(ExprId item, int depth) {
    for (int count = 0;; ++count) {
      uint64_t min = 0;
      uint64_t max = kUnbounded;
      if (Take('*')) {
      } else if (Take('+')) {
        min = 1;
      } else if (Take('?')) {
        max = 1;
      } else if (Take('{')) {
        ReadBounds(min, max);
      } else {
        return item;
      }
      if (count >= kMostDepth) throw Bad("a repetition of a repetition, too many times over");
      SkipSpace(depth > 0);
      item = rules_.Repeat(item, static_cast<uint32_t>(min), static_cast<uint32_t>(max));
    }
  }

  void ReadBounds(uint64_t& min, uint64_t& max) {
    SkipSpace(true);
    const bool has_min = ReadNumber(min);
    SkipSpace(true);
    if (Take(',')) {
      SkipSpace(true);
      const bool has_max = ReadNumber(max);
      if (!has_min && !has_max) throw Bad("a repetition without a number");
      SkipSpace(true);
    } else {
      if (!has_min) throw Bad("a repetition without a number");
      max = min;
    }
    Expect('}');
    CheckRepeats(min, max, "the grammar");
  }

  bool ReadNumber(uint64_t& number) {
    if (Peek() < '0' || Peek() > '9') return false;
    for (number = 0; Peek() >= '0' && Peek() <= '9'; ++at_) {
      number = std::min<uint64_t>(10 * number + static_cast<uint64_t>(Peek() - '0'), 1'000'000);
    }
    return true;
  }

  ExprId ReadText() {
    Expect('"');
    std::string out;
    while (!Take('"')) text::AppendUtf8(out, ReadCharacter());
    return rules_.Text(std::move(out));
  }

  ExprId ReadSet() {
    Expect('[');
    const bool negated = Take('^');
    text::Ranges ranges;
    while (!Take(']')) {
      const uint32_t low = ReadCharacter();
      uint32_t high = low;
      if (Peek() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
        ++at_;
        high = ReadCharacter();
        if (high < low) throw Bad("a range whose end comes before its beginning");
      }
      ranges.emplace_back(low, high + 1);
    }
    ranges = text::Normalized(std::move(ranges));
    return rules_.Set(negated ? text::Complement(ranges) : std::move(ranges));
  }

  uint32_t ReadCharacter() {
    if (AtEnd()) throw Bad("an end in the middle of a text or set");
    if (!Take('\\')) return text::NextCodePoint(text_, at_);
    if (AtEnd()) throw Bad("an end behind a backslash");
    const char c = text_[at_++];
    switch (c) {
      case 'n': return '\n';
      case 'r': return '\r';
      case 't': return '\t';
      case 'x': return ReadHex(2);
      case 'u': return ReadHex(4);
      case 'U': return ReadHex(8);
      case '\\':
      case '"':
      case '[':
      case ']':
      case '-':
      case '^': return static_cast<unsigned char>(c);
      default: throw Bad("an escape that is not known: " + Quote("\\" + std::string(1, c)));
    }
  }

  uint32_t ReadHex(int digits) {
    uint64_t value = 0;
    for (int i = 0; i < digits; ++i, ++at_) {
      const char c = Peek();
      uint32_t digit = 16;
      if (c >= '0' && c <= '9') digit = static_cast<uint32_t>(c - '0');
      if (c >= 'a' && c <= 'f') digit = static_cast<uint32_t>(c - 'a') + 10;
      if (c >= 'A' && c <= 'F') digit = static_cast<uint32_t>(c - 'A') + 10;
      if (digit > 15) throw Bad("an escape with less than " + std::to_string(digits) + " digits");
      value = 16 * value + digit;
    }
    if (value >= text::kCodePoints || (value >= 0xD800 && value < 0xE000)) {
      throw Bad("an escape of a character that does not exist");
    }
    return static_cast<uint32_t>(value);
  }

  std::string_view text_;
  size_t at_ = 0;
  Rules rules_;
  std::map<std::string, RuleId> numbers_;
};

}  // namespace

Rules ReadGbnf(std::string_view text) {
  CheckTextSize(text, "the grammar");
  if (!text::IsValidUtf8(text)) {
    throw Error(ErrorCode::kInvalidArgument, "the grammar is not valid UTF-8");
  }
  return GbnfReader(text).Read();
}

Rules ReadChoices(std::span<const std::string> choices) {
  if (choices.empty()) throw Error(ErrorCode::kInvalidArgument, "there are no choices");
  size_t bytes = 0;
  Rules rules;
  std::vector<ExprId> texts;
  for (const std::string& choice : choices) {
    bytes += choice.size();
    if (bytes > kMostTextBytes) {
      throw Error(ErrorCode::kLimit, "the choices have more than " +
                                         std::to_string(kMostTextBytes) + " bytes together");
    }
    if (choice.empty()) throw Error(ErrorCode::kInvalidArgument, "a choice is empty");
    if (!text::IsValidUtf8(choice)) {
      throw Error(ErrorCode::kInvalidArgument, "a choice is not valid UTF-8");
    }
    texts.push_back(rules.Text(choice));
  }
  rules.root = rules.AddRule("choices");
  rules.Define(rules.root, rules.Choice(std::move(texts)));
  return rules;
}

}  // namespace oort::grammar
