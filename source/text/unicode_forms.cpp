// SPDX-License-Identifier: MIT
// Normal forms, and where one grapheme cluster ends.
#include <algorithm>
#include <span>
#include <unordered_map>

#include "text/unicode.h"
#include "text/utf8.h"

namespace oort::text {
namespace {

constexpr uint32_t kSyllableBase = 0xAC00, kLeadBase = 0x1100, kVowelBase = 0x1161,
                   kTrailBase = 0x11A7;
constexpr uint32_t kLeads = 19, kVowels = 21, kTrails = 28;
constexpr uint32_t kSyllables = kLeads * kVowels * kTrails;

bool IsSyllable(uint32_t c) { return c - kSyllableBase < kSyllables; }

using Decompositions = std::unordered_map<uint32_t, std::span<const uint32_t>>;

Decompositions DecompositionsOf(const unicode::Table& table) {
  Decompositions out;
  const std::span<const uint32_t> values = table.values();
  for (size_t i = 0; i < values.size(); i += 2 + values[i + 1]) {
    out[values[i]] = values.subspan(i + 2, values[i + 1]);
  }
  return out;
}

const Decompositions& CanonicalDecompositions() {
  static const Decompositions map = DecompositionsOf(unicode::kCanonicalDecompositions);
  return map;
}
const Decompositions& CompatibilityDecompositions() {
  static const Decompositions map = DecompositionsOf(unicode::kCompatibilityDecompositions);
  return map;
}

uint64_t PairKey(uint32_t first, uint32_t second) { return uint64_t{first} << 32 | second; }

const std::unordered_map<uint64_t, uint32_t>& Compositions() {
  static const std::unordered_map<uint64_t, uint32_t> map = [] {
    std::unordered_map<uint64_t, uint32_t> out;
    const std::span<const uint32_t> triples = unicode::kCompositions.values();
    for (size_t i = 0; i < triples.size(); i += 3) {
      out[PairKey(triples[i], triples[i + 1])] = triples[i + 2];
    }
    return out;
  }();
  return map;
}

/// Characters that make the slow way necessary.
CodePointSet RestlessSet(bool compose, bool compatible) {
  Ranges out = RangesOfRuns(unicode::kCombiningClass, [](uint32_t value) { return value != 0; });
  const auto add = [&](uint32_t c) { out.emplace_back(c, c + 1); };
  const std::span<const uint32_t> triples = unicode::kCompositions.values();
  std::unordered_map<uint32_t, bool> composed;
  for (size_t i = 0; i < triples.size(); i += 3) composed[triples[i + 2]] = true;
  for (const auto& [c, parts] : CanonicalDecompositions()) {
    if (!compose || !composed.contains(c)) add(c);
  }
  if (compatible) {
    for (const auto& [c, parts] : CompatibilityDecompositions()) add(c);
  }
  if (compose) {
    for (size_t i = 0; i < triples.size(); i += 3) add(triples[i + 1]);
    out.emplace_back(kVowelBase, kVowelBase + kVowels);
    out.emplace_back(kTrailBase + 1, kTrailBase + kTrails);
  } else {
    out.emplace_back(kSyllableBase, kSyllableBase + kSyllables);
  }
  return CodePointSet(Normalized(std::move(out)));
}

const CodePointSet& Restless(NormalForm form) {
  static const CodePointSet nfc = RestlessSet(true, false);
  static const CodePointSet nfd = RestlessSet(false, false);
  static const CodePointSet nfkc = RestlessSet(true, true);
  static const CodePointSet nfkd = RestlessSet(false, true);
  switch (form) {
    case NormalForm::kNfc: return nfc;
    case NormalForm::kNfd: return nfd;
    case NormalForm::kNfkc: return nfkc;
    default: return nfkd;
  }
}

struct Marked {
  uint32_t c;
  uint32_t combining;
};

uint32_t CombiningClassOf(uint32_t c) {
  return c < 0x300 ? 0 : ValueIn(unicode::kCombiningClass, c);
}

void Decompose(uint32_t c, bool compatible, std::vector<Marked>& out) {
  if (c < 0x80) {
    out.push_back({c, 0});
    return;
  }
  if (IsSyllable(c)) {
    const uint32_t index = c - kSyllableBase;
    out.push_back({kLeadBase + index / (kVowels * kTrails), 0});
    out.push_back({kVowelBase + index % (kVowels * kTrails) / kTrails, 0});
    if (index % kTrails != 0) out.push_back({kTrailBase + index % kTrails, 0});
    return;
  }
  std::span<const uint32_t> parts;
  if (compatible) {
    const auto found = CompatibilityDecompositions().find(c);
    if (found != CompatibilityDecompositions().end()) parts = found->second;
  }
  if (parts.empty()) {
    const auto found = CanonicalDecompositions().find(c);
    if (found != CanonicalDecompositions().end()) parts = found->second;
  }
  if (parts.empty()) {
    out.push_back({c, CombiningClassOf(c)});
    return;
  }
  for (const uint32_t part : parts) out.push_back({part, CombiningClassOf(part)});
}

/// Sorts each run of combining characters by class.
void Reorder(std::vector<Marked>& text) {
  for (size_t i = 0; i < text.size();) {
    size_t end = i;
    while (end < text.size() && text[end].combining != 0) ++end;
    std::stable_sort(text.begin() + static_cast<ptrdiff_t>(i),
                     text.begin() + static_cast<ptrdiff_t>(end),
                     [](const Marked& a, const Marked& b) { return a.combining < b.combining; });
    i = end + 1;
  }
}

uint32_t ComposedPair(uint32_t first, uint32_t second) {
  if (first - kLeadBase < kLeads && second - kVowelBase < kVowels) {
    return kSyllableBase + ((first - kLeadBase) * kVowels + second - kVowelBase) * kTrails;
  }
  if (IsSyllable(first) && (first - kSyllableBase) % kTrails == 0 && second > kTrailBase &&
      second < kTrailBase + kTrails) {
    return first + second - kTrailBase;
  }
  const auto found = Compositions().find(PairKey(first, second));
  return found == Compositions().end() ? 0 : found->second;
}

void Compose(std::vector<Marked>& text) {
  constexpr size_t kNone = static_cast<size_t>(-1);
  size_t starter = kNone;
  size_t kept = 0;
  uint32_t last_class = 0;  // of what stands between the starter and here
  for (size_t i = 0; i < text.size(); ++i) {
    const Marked mark = text[i];
    if (starter != kNone && (kept == starter + 1 || last_class < mark.combining)) {
      const uint32_t composed = ComposedPair(text[starter].c, mark.c);
      if (composed != 0) {
        text[starter].c = composed;
        continue;
      }
    }
    if (mark.combining == 0) starter = kept;
    last_class = mark.combining;
    text[kept++] = mark;
  }
  text.resize(kept);
}

}  // namespace

std::string ToNormalForm(std::string_view text, NormalForm form) {
  const CodePointSet& restless = Restless(form);
  bool changes = false;
  for (size_t at = 0; at < text.size() && !changes;) {
    changes = restless.Contains(NextCodePoint(text, at));
  }
  if (!changes) return std::string(text);
  const bool compatible = form == NormalForm::kNfkc || form == NormalForm::kNfkd;
  std::vector<Marked> marks;
  marks.reserve(text.size());
  for (size_t at = 0; at < text.size();) Decompose(NextCodePoint(text, at), compatible, marks);
  Reorder(marks);
  if (form == NormalForm::kNfc || form == NormalForm::kNfkc) Compose(marks);
  std::string out;
  out.reserve(text.size());
  for (const Marked& mark : marks) AppendUtf8(out, mark.c);
  return out;
}

namespace {

enum class Break : unsigned char {
  kOther,
  kControl,
  kExtend,
  kJoiner,
  kSpacing,
  kPrepend,
  kRegional,
  kLead,
  kVowel,
  kTrail,
  kLeadVowel,
  kLeadVowelTrail,
};

bool IsPrepend(uint32_t c) {
  return (c >= 0x600 && c <= 0x605) || c == 0x6DD || c == 0x70F || c == 0x890 || c == 0x891 ||
         c == 0x8E2 || c == 0xD4E || c == 0x110BD || c == 0x110CD || c == 0x111C2 || c == 0x111C3;
}

bool IsSpacing(uint32_t c) {
  if (c == 0xE33 || c == 0xEB3) return true;
  if (c == 0x102B || c == 0x102C || c == 0x1038 || (c >= 0x1062 && c <= 0x1064) ||
      (c >= 0x1067 && c <= 0x106D) || c == 0x1083 || (c >= 0x1087 && c <= 0x108C) || c == 0x108F ||
      (c >= 0x109A && c <= 0x109C) || c == 0x1A61 || c == 0x1A63 || c == 0x1A64 || c == 0xAA7B ||
      c == 0xAA7D || c == 0x11720 || c == 0x11721) {
    return false;
  }
  return ValueIn(unicode::kGeneralCategory, c) == 7;  // Mc
}

Break BreakOf(uint32_t c) {
  static const CodePointSet extend(
      Union(RangesOfSet(unicode::kGraphemeExtend), RangesOfSet(unicode::kEmojiModifier)));
  static const CodePointSet control(
      Union(RangesOfRuns(unicode::kGeneralCategory,
                         [](uint32_t value) { return value >= 24 && value <= 27; }),  // Zl Zp Cc Cf
            {{0xFFF0, 0xFFF9}, {0xE0000, 0xE0020}, {0xE0080, 0xE0100}, {0xE01F0, 0xE1000}}));
  if (c < 0x20 || c == 0x7F) return Break::kControl;
  if (c < 0x7F) return Break::kOther;
  if (c == 0x200D) return Break::kJoiner;
  if (extend.Contains(c) || c == 0x200C) return Break::kExtend;
  if (IsPrepend(c)) return Break::kPrepend;
  if (control.Contains(c)) return Break::kControl;
  if (c >= 0x1F1E6 && c <= 0x1F1FF) return Break::kRegional;
  if ((c >= 0x1100 && c <= 0x115F) || (c >= 0xA960 && c <= 0xA97C)) return Break::kLead;
  if ((c >= 0x1160 && c <= 0x11A7) || (c >= 0xD7B0 && c <= 0xD7C6)) return Break::kVowel;
  if ((c >= 0x11A8 && c <= 0x11FF) || (c >= 0xD7CB && c <= 0xD7FB)) return Break::kTrail;
  if (IsSyllable(c)) {
    return (c - kSyllableBase) % kTrails == 0 ? Break::kLeadVowel : Break::kLeadVowelTrail;
  }
  return IsSpacing(c) ? Break::kSpacing : Break::kOther;
}

/// Conjuncts of Indic scripts stay together (GB9c): linker and consonants.
bool IsLinker(uint32_t c) {
  return c == 0x94D || c == 0x9CD || c == 0xACD || c == 0xB4D || c == 0xC4D || c == 0xD4D;
}
bool IsIndicConsonant(uint32_t c) {
  constexpr std::pair<uint32_t, uint32_t> kRanges[] = {
      {0x915, 0x939}, {0x958, 0x95F}, {0x978, 0x97F}, {0x995, 0x9A8}, {0x9AA, 0x9B0},
      {0x9B2, 0x9B2}, {0x9B6, 0x9B9}, {0x9DC, 0x9DD}, {0x9DF, 0x9DF}, {0x9F0, 0x9F1},
      {0xA95, 0xAA8}, {0xAAA, 0xAB0}, {0xAB2, 0xAB3}, {0xAB5, 0xAB9}, {0xAF9, 0xAF9},
      {0xB15, 0xB28}, {0xB2A, 0xB30}, {0xB32, 0xB33}, {0xB35, 0xB39}, {0xB5C, 0xB5D},
      {0xB5F, 0xB5F}, {0xB71, 0xB71}, {0xC15, 0xC28}, {0xC2A, 0xC39}, {0xC58, 0xC5A},
      {0xD15, 0xD3A}};
  return std::any_of(std::begin(kRanges), std::end(kRanges),
                     [&](const auto& range) { return c >= range.first && c <= range.second; });
}

bool HangulStaysTogether(Break left, Break right) {
  switch (left) {
    case Break::kLead:
      return right == Break::kLead || right == Break::kVowel || right == Break::kLeadVowel ||
             right == Break::kLeadVowelTrail;
    case Break::kLeadVowel:
    case Break::kVowel: return right == Break::kVowel || right == Break::kTrail;
    case Break::kLeadVowelTrail:
    case Break::kTrail: return right == Break::kTrail;
    default: return false;
  }
}

}  // namespace

size_t GraphemeEnd(std::string_view text, size_t at) {
  static const CodePointSet pictographic(RangesOfSet(unicode::kExtendedPictographic));
  uint32_t c = NextCodePoint(text, at);
  Break left = BreakOf(c);
  bool after_picture = pictographic.Contains(c);  // a picture, then only Extend
  bool after_consonant = IsIndicConsonant(c);
  bool linked = false;
  size_t regionals = left == Break::kRegional ? 1 : 0;
  while (at < text.size()) {
    size_t next = at;
    const uint32_t d = NextCodePoint(text, next);
    const Break right = BreakOf(d);
    bool together = false;
    if (left == Break::kControl) {
      together = c == '\r' && d == '\n';
    } else if (right == Break::kControl) {
      together = false;
    } else if (right == Break::kExtend || right == Break::kJoiner || right == Break::kSpacing ||
               left == Break::kPrepend) {
      together = true;
    } else if (left == Break::kRegional && right == Break::kRegional) {
      together = regionals % 2 == 1;
    } else {
      together = HangulStaysTogether(left, right) ||
                 (left == Break::kJoiner && after_picture && pictographic.Contains(d)) ||
                 (after_consonant && linked && IsIndicConsonant(d));
    }
    if (!together) return at;
    if (right != Break::kExtend && right != Break::kJoiner) {
      after_picture = pictographic.Contains(d);
      after_consonant = IsIndicConsonant(d);
      linked = false;
    } else if (IsLinker(d)) {
      linked = true;
    }
    regionals = right == Break::kRegional ? regionals + 1 : 0;
    c = d;
    left = right;
    at = next;
  }
  return at;
}

}  // namespace oort::text
