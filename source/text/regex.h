// SPDX-License-Identifier: MIT
// Regular expressions with the meaning that Oniguruma's Ruby syntax gives them: `^` and `$` match
// at every line, `\s` and `\p{…}` are Unicode's, (?i:) folds case one character at a time. Matching
// counts its steps, so that no pattern and text can keep it busy for ever.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/unicode.h"

namespace oort::text {

struct RegexNode;

class Regex {
 public:
  /// Throws kInvalidModel where the pattern is malformed and kUnsupported where it needs what is
  /// not there (back references, absent operators, …).
  explicit Regex(std::string_view pattern);
  /// The text itself, whatever it holds.
  static Regex Literal(std::string_view text);

  struct Match {
    size_t begin, end;
  };
  /// Memory that matches share; keep one for each thread.
  struct Scratch {
    struct Entry {
      uint32_t kind, pc;
      size_t at, floor;
    };
    std::vector<Entry> stack;
    std::vector<size_t> slots;
    uint64_t steps = 0;  ///< left before the search gives up
  };

  /// Walks through all matches that do not overlap, as Oniguruma's callers do: an empty match right
  /// after another is skipped. Throws kLimit where the text takes too many steps.
  template <typename Visitor>
  void ForEach(std::string_view text, Scratch& scratch, Visitor visit) const {
    scratch.stack.clear();
    scratch.steps = kBaseSteps + kStepsPerByte * text.size();
    size_t from = 0;
    size_t last_end = static_cast<size_t>(-1);
    Match match{};
    while (from <= text.size() && Search(text, from, scratch, match)) {
      if (match.begin == match.end && match.end == last_end) {
        from += from < text.size() ? NextLength(text, from) : 1;
        continue;
      }
      visit(match);
      from = last_end = match.end;
    }
  }

 private:
  friend class RegexCompiler;
  enum class Op : uint8_t;
  struct Instruction {
    Op op;
    bool flag = false;  ///< possessive, negated
    uint32_t a = 0;     ///< set, literal, jump target, slot
    uint32_t b = 0;     ///< second target, length of a literal
    uint32_t min = 0, max = 0;
  };
  struct Alternative {
    uint32_t pc;
    CodePointSet first;  ///< what it can begin with
    bool nullable;       ///< begins with anything, as it may match nothing
  };

  static constexpr uint64_t kBaseSteps = 10'000'000;
  static constexpr uint64_t kStepsPerByte = 1000;

  Regex() = default;
  static size_t NextLength(std::string_view text, size_t at);
  bool Search(std::string_view text, size_t from, Scratch& scratch, Match& match) const;
  bool MatchAt(std::string_view text, size_t at, Scratch& scratch, Match& match) const;
  bool Run(uint32_t pc, std::string_view text, size_t at, size_t target, Scratch& scratch,
           size_t& end) const;
  bool RunAssertion(const Instruction& i, std::string_view text, size_t at, Scratch& scratch) const;
  size_t Loop(const Instruction& i, std::string_view text, size_t at, Scratch& scratch,
              size_t& floor) const;

  std::vector<Instruction> program_;
  std::vector<CodePointSet> sets_;
  std::string literals_;
  std::vector<Alternative> alternatives_;
  std::array<uint64_t, 128> by_ascii_{};  ///< which alternatives an ASCII character can begin
  uint64_t all_ = 0;
  uint32_t slots_ = 0;
  std::string literal_;  ///< not empty: the pattern is just this text
};

}  // namespace oort::text
