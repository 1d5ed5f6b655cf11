// SPDX-License-Identifier: MIT
#include "text/unicode.h"

#include <algorithm>
#include <map>
#include <memory>
#include <unordered_map>

#include "text/utf8.h"

namespace oort::text {

const uint32_t* unicode::Table::Unpack() const {
  auto values = std::make_unique<uint32_t[]>(size_);
  const unsigned char* at = packed_;
  for (size_t i = 0; i < size_; ++i) {
    // Seven bits a byte, the lowest first; the lowest of all is the sign.
    uint32_t difference = 0;
    for (int shift = 0;; shift += 7) {
      difference |= static_cast<uint32_t>(*at & 0x7F) << shift;
      if (*at++ < 0x80) break;
    }
    const uint32_t before = i < lag_ ? 0 : values[i - lag_];
    values[i] = before + (difference >> 1 ^ (0 - (difference & 1)));
  }
  const uint32_t* known = nullptr;
  if (!values_.compare_exchange_strong(known, values.get(), std::memory_order_acq_rel))
    return known;
  return values.release();
}

Ranges Normalized(Ranges ranges) {
  std::sort(ranges.begin(), ranges.end());
  Ranges out;
  for (const auto& [begin, end] : ranges) {
    if (begin >= end) continue;
    if (!out.empty() && begin <= out.back().second) {
      out.back().second = std::max(out.back().second, end);
    } else {
      out.emplace_back(begin, end);
    }
  }
  return out;
}

Ranges Union(const Ranges& a, const Ranges& b) {
  Ranges both = a;
  both.insert(both.end(), b.begin(), b.end());
  return Normalized(std::move(both));
}

Ranges Complement(const Ranges& ranges) {
  Ranges out;
  uint32_t at = 0;
  for (const auto& [begin, end] : ranges) {
    if (at < begin) out.emplace_back(at, begin);
    at = end;
  }
  if (at < kCodePoints) out.emplace_back(at, kCodePoints);
  return out;
}

Ranges Intersection(const Ranges& a, const Ranges& b) {
  return Complement(Union(Complement(a), Complement(b)));
}

Ranges RangesOfSet(const unicode::Table& set) {
  Ranges out;
  const std::span<const uint32_t> bounds = set.values();
  for (size_t i = 0; i + 1 < bounds.size(); i += 2) out.emplace_back(bounds[i], bounds[i + 1]);
  return out;
}

CodePointSet::CodePointSet(const Ranges& ranges) : index_(kCodePoints >> 8), pages_(1) {
  std::map<Page, uint16_t> known = {{Page{}, 0}};
  size_t next = 0;
  // Most pages are like the one before: all of them lies inside of a range, or outside.
  uint16_t last = 0;
  for (uint32_t page = 0; page < kCodePoints >> 8; ++page) {
    Page bits{};
    const uint32_t first = page << 8;
    while (next < ranges.size() && ranges[next].second <= first) ++next;
    if (next == ranges.size()) break;
    if (ranges[next].first <= first && ranges[next].second >= first + 256) {
      bits.fill(~uint64_t{0});
    } else {
      for (size_t i = next; i < ranges.size() && ranges[i].first < first + 256; ++i) {
        const uint32_t end = std::min(ranges[i].second, first + 256);
        for (uint32_t c = std::max(ranges[i].first, first); c < end; ++c) {
          bits[c >> 6 & 3] |= uint64_t{1} << (c & 63);
        }
      }
    }
    if (bits != pages_[last]) {
      const auto [entry, is_new] = known.emplace(bits, static_cast<uint16_t>(pages_.size()));
      if (is_new) pages_.push_back(bits);
      last = entry->second;
    }
    index_[page] = last;
  }
  const Page& lowest = pages_[index_[0]];
  for (uint32_t c = 0; c < 128; ++c) ascii_[c] = lowest[c >> 6] >> (c & 63) & 1;
}

uint32_t ValueIn(const unicode::Table& table, uint32_t c) {
  const std::span<const uint32_t> runs = table.values();
  const auto after = std::upper_bound(runs.begin(), runs.end(), c << 8 | 0xFF);
  return after == runs.begin() ? 0 : after[-1] & 0xFF;
}

bool IsIn(const unicode::Table& set, uint32_t c) {
  // An odd number of boundaries up to the character: it is inside.
  const std::span<const uint32_t> bounds = set.values();
  return (std::upper_bound(bounds.begin(), bounds.end(), c) - bounds.begin()) % 2 != 0;
}

namespace {

// In the order of the table.
constexpr std::string_view kCategoryNames[] = {
    "cn", "lu", "ll", "lt", "lm", "lo", "mn", "mc", "me", "nd", "nl", "no", "pc", "pd", "ps",
    "pe", "pi", "pf", "po", "sm", "sc", "sk", "so", "zs", "zl", "zp", "cc", "cf", "co"};

struct LongName {
  std::string_view name, category;
};
constexpr LongName kLongNames[] = {
    {"letter", "l"},
    {"mark", "m"},
    {"combiningmark", "m"},
    {"number", "n"},
    {"punctuation", "p"},
    {"punct", "p"},  // [[:punct:]] and \p{PosixPunct} have symbols, too
    {"symbol", "s"},
    {"separator", "z"},
    {"other", "c"},
    {"uppercaseletter", "lu"},
    {"lowercaseletter", "ll"},
    {"titlecaseletter", "lt"},
    {"modifierletter", "lm"},
    {"otherletter", "lo"},
    {"nonspacingmark", "mn"},
    {"spacingmark", "mc"},
    {"enclosingmark", "me"},
    {"decimalnumber", "nd"},
    {"letternumber", "nl"},
    {"othernumber", "no"},
    {"connectorpunctuation", "pc"},
    {"dashpunctuation", "pd"},
    {"openpunctuation", "ps"},
    {"closepunctuation", "pe"},
    {"initialpunctuation", "pi"},
    {"finalpunctuation", "pf"},
    {"otherpunctuation", "po"},
    {"mathsymbol", "sm"},
    {"currencysymbol", "sc"},
    {"modifiersymbol", "sk"},
    {"othersymbol", "so"},
    {"spaceseparator", "zs"},
    {"lineseparator", "zl"},
    {"paragraphseparator", "zp"},
    {"control", "cc"},
    {"format", "cf"},
    {"privateuse", "co"},
    {"unassigned", "cn"},
};

Ranges RangesOfCategory(std::string_view name) {
  return RangesOfRuns(unicode::kGeneralCategory, [&](uint32_t value) {
    const std::string_view own = kCategoryNames[value];
    return own == name || (name.size() == 1 && own[0] == name[0]);
  });
}

bool IsCategoryName(std::string_view name) {
  return std::any_of(
      std::begin(kCategoryNames), std::end(kCategoryNames),
      [&](std::string_view own) { return own == name || (name.size() == 1 && own[0] == name[0]); });
}

struct NamedSet {
  std::string_view name;
  const unicode::Table* set;
};

const std::vector<NamedSet>& BinaryProperties() {
  using namespace unicode;
  static const std::vector<NamedSet> sets = {
      {"alphabetic", &kAlphabetic},
      {"alpha", &kPosixAlpha},
      {"posixpunct", &kPosixPunct},
      {"whitespace", &kWhiteSpace},
      {"lowercase", &kLowercase},
      {"uppercase", &kUppercase},
      {"emoji", &kEmoji},
      {"emojipresentation", &kEmojiPresentation},
      {"emojimodifier", &kEmojiModifier},
      {"emojimodifierbase", &kEmojiModifierBase},
      {"emojicomponent", &kEmojiComponent},
      {"extendedpictographic", &kExtendedPictographic},
      {"graphemeextend", &kGraphemeExtend},
      {"ideographic", &kIdeographic},
  };
  return sets;
}

}  // namespace

Ranges RangesOfWord(bool in_brackets) {
  const Ranges word = RangesOfSet(unicode::kWord);
  if (!in_brackets) return word;
  return Intersection(word, Complement(RangesOfSet(unicode::kWordOutsideBrackets)));
}

bool RangesOfPosixClass(std::string_view name, Ranges& ranges) {
  using namespace unicode;
  static const std::vector<NamedSet> sets = {
      {"alnum", &kPosixAlnum}, {"alpha", &kPosixAlpha}, {"blank", &kPosixBlank},
      {"cntrl", &kPosixCntrl}, {"digit", &kDigit},      {"graph", &kPosixGraph},
      {"lower", &kPosixLower}, {"print", &kPosixPrint}, {"punct", &kPosixPunct},
      {"space", &kSpace},      {"upper", &kPosixUpper},
  };
  for (const NamedSet& set : sets) {
    if (set.name != name) continue;
    ranges = RangesOfSet(*set.set);
    return true;
  }
  if (name == "word") {
    ranges = RangesOfWord(true);
    return true;
  }
  if (name == "xdigit") {
    ranges = {{'0', '9' + 1}, {'A', 'F' + 1}, {'a', 'f' + 1}};
    return true;
  }
  if (name == "ascii") {
    ranges = {{0, 128}};
    return true;
  }
  return false;
}

bool RangesOfProperty(std::string_view spelled, bool in_brackets, Ranges& ranges) {
  std::string name;
  for (const char c : spelled) {
    if (c == ' ' || c == '_' || c == '-') continue;
    name += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  }
  if (name == "any") {
    ranges = {{0, kCodePoints}};
    return true;
  }
  if (name == "assigned") {
    ranges = Complement(RangesOfCategory("cn"));
    return true;
  }
  if (name == "lc") {
    ranges = Union(Union(RangesOfCategory("lu"), RangesOfCategory("ll")), RangesOfCategory("lt"));
    return true;
  }
  if (name == "word") {
    ranges = RangesOfWord(in_brackets);
    return true;
  }
  for (const LongName& known : kLongNames) {
    if (known.name == name) name = known.category;
  }
  if (IsCategoryName(name)) {
    ranges = RangesOfCategory(name);
    return true;
  }
  for (int i = 0; i < unicode::kScriptCount; ++i) {
    if (name != unicode::kScriptNames[i]) continue;
    ranges = RangesOfRuns(unicode::kScript,
                          [&](uint32_t value) { return value == static_cast<uint32_t>(i) + 1; });
    return true;
  }
  for (const NamedSet& set : BinaryProperties()) {
    if (set.name != name) continue;
    ranges = RangesOfSet(*set.set);
    return true;
  }
  return RangesOfPosixClass(name, ranges);
}

std::vector<uint32_t> CaseVariants(uint32_t c) {
  std::vector<uint32_t> out;
  const std::span<const uint32_t> pairs =
      unicode::kCasePairs.values();  // sorted by the first of each pair
  size_t low = 0;
  size_t high = pairs.size() / 2;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    (pairs[2 * middle] < c ? low : high) = pairs[2 * middle] < c ? middle + 1 : middle;
  }
  for (; low < pairs.size() / 2 && pairs[2 * low] == c; ++low) out.push_back(pairs[2 * low + 1]);
  return out;
}

Ranges WithCaseVariants(const Ranges& ranges) {
  Ranges out = ranges;
  const std::span<const uint32_t> pairs = unicode::kCasePairs.values();
  for (size_t i = 0; i < pairs.size(); i += 2) {
    const uint32_t c = pairs[i];
    const auto after = std::upper_bound(ranges.begin(), ranges.end(), std::pair(c, kCodePoints));
    if (after == ranges.begin() || c >= after[-1].second) continue;
    out.emplace_back(pairs[i + 1], pairs[i + 1] + 1);
  }
  return Normalized(std::move(out));
}

const CodePointSet& NumericSet() {
  static const CodePointSet set(RangesOfSet(unicode::kNumeric));
  return set;
}
const CodePointSet& RustSpaceSet() {
  static const CodePointSet set(RangesOfSet(unicode::kRustSpace));
  return set;
}
const CodePointSet& PunctuationSet() {
  static const CodePointSet set(RangesOfSet(unicode::kPunctuation));
  return set;
}
const CodePointSet& RegexWordSet() {
  static const CodePointSet set(RangesOfSet(unicode::kRegexWord));
  return set;
}
const CodePointSet& BertControlSet() {
  static const CodePointSet set(RangesOfSet(unicode::kBertControl));
  return set;
}
const CodePointSet& CombiningMarkSet() {
  static const CodePointSet set(RangesOfSet(unicode::kCombiningMark));
  return set;
}
const CodePointSet& NonspacingMarkSet() {
  static const CodePointSet set(RangesOfSet(unicode::kNonspacingMark));
  return set;
}

void AppendLowercase(std::string& text, uint32_t c) {
  static const std::unordered_map<uint32_t, uint32_t> map = [] {
    std::unordered_map<uint32_t, uint32_t> out;
    const std::span<const uint32_t> pairs = unicode::kLowercasePairs.values();
    for (size_t i = 0; i < pairs.size(); i += 2) out[pairs[i]] = pairs[i + 1];
    return out;
  }();
  if (c < 128) {
    text += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  } else if (c == 0x130) {  // the only one that becomes two
    text += "i\xCC\x87";
  } else {
    const auto found = map.find(c);
    AppendUtf8(text, found == map.end() ? c : found->second);
  }
}

}  // namespace oort::text
