// SPDX-License-Identifier: MIT
// What tokenizers ask about characters. Versions of Unicode: docs/tokenizers.md.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/unicode_tables.h"

namespace oort::text {

inline constexpr uint32_t kCodePoints = 0x110000;

/// Sorted, disjoint, not touching [first, second) intervals.
using Ranges = std::vector<std::pair<uint32_t, uint32_t>>;

Ranges Normalized(Ranges ranges);
Ranges Union(const Ranges& a, const Ranges& b);
Ranges Intersection(const Ranges& a, const Ranges& b);
Ranges Complement(const Ranges& ranges);
Ranges RangesOfSet(const unicode::Table& set);
/// All characters whose value in a table of runs passes.
template <typename Test>
Ranges RangesOfRuns(const unicode::Table& table, Test test) {
  Ranges out;
  const std::span<const uint32_t> runs = table.values();
  for (size_t i = 0; i < runs.size(); ++i) {
    if (!test(runs[i] & 0xFF)) continue;
    const uint32_t end = i + 1 < runs.size() ? runs[i + 1] >> 8 : kCodePoints;
    out.emplace_back(runs[i] >> 8, end);
  }
  return Normalized(std::move(out));
}

/// A set with an answer in two loads: pages of 256 characters, equal pages stored once.
class CodePointSet {
 public:
  CodePointSet() : CodePointSet(Ranges()) {}
  explicit CodePointSet(const Ranges& ranges);
  bool Contains(uint32_t c) const {
    if (c < 128) return ascii_[c];
    const Page& page = pages_[index_[c >> 8]];
    return page[c >> 6 & 3] >> (c & 63) & 1;
  }
  bool ContainsAscii(unsigned char c) const { return ascii_[c]; }

 private:
  using Page = std::array<uint64_t, 4>;
  std::array<bool, 128> ascii_{};
  std::vector<uint16_t> index_;
  std::vector<Page> pages_;
};

/// A value for each character, found by bisection.
uint32_t ValueIn(const unicode::Table& runs, uint32_t c);
/// Whether a table of a set holds a character, by bisection.
bool IsIn(const unicode::Table& set, uint32_t c);

/// The ranges of `\w`. In brackets it lacks ¹, ², ³, ¼, ½ and ¾: Oniguruma has two tables.
Ranges RangesOfWord(bool in_brackets);
/// The ranges of `\p{name}`, or false where no property has the name.
bool RangesOfProperty(std::string_view name, bool in_brackets, Ranges& ranges);
/// The ranges of `[[:name:]]`, or false.
bool RangesOfPosixClass(std::string_view name, Ranges& ranges);
/// What else matches `c` when case is ignored.
std::vector<uint32_t> CaseVariants(uint32_t c);
Ranges WithCaseVariants(const Ranges& ranges);

const CodePointSet& NumericSet();      ///< Rust's char::is_numeric
const CodePointSet& RustSpaceSet();    ///< Rust's char::is_whitespace
const CodePointSet& PunctuationSet();  ///< ASCII punctuation and the categories P
const CodePointSet& RegexWordSet();    ///< \w of Rust's regex
const CodePointSet& BertControlSet();  ///< what BERT's cleaning removes
const CodePointSet& CombiningMarkSet();
const CodePointSet& NonspacingMarkSet();

/// Rust's char::to_lowercase, without context.
void AppendLowercase(std::string& text, uint32_t c);

enum class NormalForm : unsigned char { kNfc, kNfd, kNfkc, kNfkd };
/// Unicode 9.0's normal forms: newer characters are left alone and stop reordering.
std::string ToNormalForm(std::string_view text, NormalForm form);

/// End of the grapheme cluster that begins at `at`.
size_t GraphemeEnd(std::string_view text, size_t at);

}  // namespace oort::text
