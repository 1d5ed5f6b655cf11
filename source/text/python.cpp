// SPDX-License-Identifier: MIT
#include "text/python.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <span>
#include <unordered_map>

#include "text/unicode.h"
#include "text/utf8.h"

namespace oort::python {
namespace {

namespace unicode = text::unicode;

/// Of the values of unicode::kGeneralCategory those that are asked for here.
enum Category : unsigned char {
  kUnassigned = 0,
  kUppercaseLetter = 1,
  kTitlecaseLetter = 3,
  kModifierLetter = 4,
  kOtherLetter = 5,
  kNonspacingMark = 6,
  kEnclosingMark = 8,
  kDecimalNumber = 9,
  kOtherNumber = 11,
  kModifierSymbol = 21,
  kSpaceSeparator = 23,  ///< from here on nothing is printable
  kFormat = 27,
};

/// The tables are those of tokenizers, which know younger characters than Python does.
bool IsNewer(char32_t c) { return text::IsIn(unicode::kNewerThanPython, c); }

Category CategoryOf(char32_t c) {
  return IsNewer(c) ? kUnassigned
                    : static_cast<Category>(text::ValueIn(unicode::kGeneralCategory, c));
}

/// The characters that a table of spellings has for one; empty where it has none.
std::span<const uint32_t> SpellingIn(const unicode::Table& table, char32_t c) {
  const std::span<const uint32_t> values = table.values();
  for (size_t i = 0; i < values.size(); i += 2 + values[i + 1]) {
    if (values[i] == c) return values.subspan(i + 2, values[i + 1]);
  }
  return {};
}

/// Upper case by lower case, where the table of spellings has nothing else.
const std::unordered_map<uint32_t, uint32_t>& UppercaseByLowercase() {
  static const std::unordered_map<uint32_t, uint32_t> map = [] {
    std::unordered_map<uint32_t, uint32_t> out;
    const std::span<const uint32_t> pairs = unicode::kLowercasePairs.values();
    for (size_t i = 0; i < pairs.size(); i += 2) {
      if (!IsNewer(pairs[i])) out.emplace(pairs[i + 1], pairs[i]);
    }
    return out;
  }();
  return map;
}

void AppendAll(std::string& text, std::span<const uint32_t> spelling) {
  for (const uint32_t c : spelling) text::AppendUtf8(text, c);
}

void AppendLower(std::string& text, char32_t c) {
  if (IsNewer(c)) {
    text::AppendUtf8(text, c);
  } else {
    text::AppendLowercase(text, c);
  }
}

void AppendUpper(std::string& text, char32_t c) {
  if (c < 0x80) {
    text += static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  } else if (const auto spelling = SpellingIn(unicode::kPythonUppercase, c); !spelling.empty()) {
    AppendAll(text, spelling);
  } else {
    const auto found = UppercaseByLowercase().find(c);
    text::AppendUtf8(text, found == UppercaseByLowercase().end() ? c : found->second);
  }
}

void AppendTitle(std::string& text, char32_t c) {
  const auto spelling = SpellingIn(unicode::kPythonTitlecase, c);
  if (spelling.empty()) {
    AppendUpper(text, c);
  } else {
    AppendAll(text, spelling);
  }
}

bool IsCaseIgnorable(char32_t c) {
  switch (CategoryOf(c)) {
    case kNonspacingMark:
    case kEnclosingMark:
    case kFormat:
    case kModifierLetter:
    case kModifierSymbol: return true;
    default: return text::IsIn(unicode::kPythonCaseIgnorable, c);
  }
}

bool IsCased(char32_t character) {
  return IsLower(character) || IsUpper(character) || IsTitle(character);
}

/// Greek sigma is written ς at the end of a word.
bool EndsWord(std::string_view text, size_t begin, size_t end) {
  bool letter_before = false;
  for (size_t at = begin; at > 0;) {
    at = text::PreviousStart(text, at);
    size_t next = at;
    const char32_t character = text::NextCodePoint(text, next);
    if (IsCaseIgnorable(character)) continue;
    letter_before = IsCased(character);
    break;
  }
  while (letter_before && end < text.size()) {
    const char32_t character = text::NextCodePoint(text, end);
    if (!IsCaseIgnorable(character)) return !IsCased(character);
  }
  return letter_before;
}

constexpr char32_t kSigma = 0x3A3;

void AppendLowerIn(std::string& out, std::string_view text, size_t begin, size_t end,
                   char32_t character) {
  if (character == kSigma) {
    text::AppendUtf8(out, EndsWord(text, begin, end) ? 0x3C2 : 0x3C3);
  } else {
    AppendLower(out, character);
  }
}

void AppendHex(std::string& text, const char* prefix, char32_t value, int digits) {
  text += prefix;
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) {
    text += "0123456789abcdef"[value >> shift & 15];
  }
}

}  // namespace

bool IsSpace(char32_t c) {
  return (c >= 9 && c <= 13) || (c >= 28 && c <= 32) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}
bool IsAlpha(char32_t c) {
  const Category category = CategoryOf(c);
  return category >= kUppercaseLetter && category <= kOtherLetter;
}
bool IsDecimal(char32_t c) { return CategoryOf(c) == kDecimalNumber; }
bool IsDigit(char32_t c) { return IsDecimal(c) || text::IsIn(unicode::kPythonDigit, c); }
bool IsNumeric(char32_t c) {
  const Category category = CategoryOf(c);
  return (category >= kDecimalNumber && category <= kOtherNumber) ||
         text::IsIn(unicode::kPythonNumeric, c);
}
bool IsPrintable(char32_t c) {
  const Category category = CategoryOf(c);
  return c == ' ' || (category != kUnassigned && category < kSpaceSeparator);
}
bool IsLower(char32_t c) {
  return text::IsIn(unicode::kLowercase, c) && !IsNewer(c) &&
         !text::IsIn(unicode::kNotLowerInPython, c);
}
bool IsUpper(char32_t c) { return text::IsIn(unicode::kUppercase, c) && !IsNewer(c); }
bool IsTitle(char32_t c) { return CategoryOf(c) == kTitlecaseLetter; }

std::string Lower(std::string_view text) {
  std::string lower;
  for (size_t offset = 0; offset < text.size();) {
    const size_t begin = offset;
    const char32_t character = text::NextCodePoint(text, offset);
    AppendLowerIn(lower, text, begin, offset, character);
  }
  return lower;
}

std::string Upper(std::string_view text) {
  std::string upper;
  for (size_t offset = 0; offset < text.size();)
    AppendUpper(upper, text::NextCodePoint(text, offset));
  return upper;
}

std::string Capitalize(std::string_view text) {
  std::string capital;
  for (size_t offset = 0; offset < text.size();) {
    const size_t begin = offset;
    const char32_t character = text::NextCodePoint(text, offset);
    if (begin == 0) {
      AppendTitle(capital, character);
    } else {
      AppendLowerIn(capital, text, begin, offset, character);
    }
  }
  return capital;
}

std::string Title(std::string_view text) {
  std::string title;
  bool inside = false;
  for (size_t offset = 0; offset < text.size();) {
    const size_t begin = offset;
    const char32_t character = text::NextCodePoint(text, offset);
    if (inside) {
      AppendLowerIn(title, text, begin, offset, character);
    } else {
      AppendTitle(title, character);
    }
    inside = IsCased(character);
  }
  return title;
}

std::string SwapCase(std::string_view text) {
  std::string swapped;
  for (size_t offset = 0; offset < text.size();) {
    const size_t begin = offset;
    const char32_t character = text::NextCodePoint(text, offset);
    if (IsUpper(character)) {
      AppendLowerIn(swapped, text, begin, offset, character);
    } else if (IsLower(character)) {
      AppendUpper(swapped, character);
    } else {
      text::AppendUtf8(swapped, character);
    }
  }
  return swapped;
}

namespace {

/// The characters from either side that `drop` says yes to are left out.
template <typename Drop>
std::string_view StripIf(std::string_view text, bool left, bool right, const Drop& drop) {
  size_t begin = 0;
  while (left && begin < text.size()) {
    size_t next = begin;
    if (!drop(text::NextCodePoint(text, next))) break;
    begin = next;
  }
  size_t end = text.size();
  while (right && end > begin) {
    const size_t last = text::PreviousStart(text, end);
    size_t next = last;
    if (!drop(text::NextCodePoint(text, next))) break;
    end = last;
  }
  return text.substr(begin, end - begin);
}

}  // namespace

std::string_view Strip(std::string_view text, bool left, bool right) {
  return StripIf(text, left, right, IsSpace);
}

std::string_view StripSet(std::string_view text, std::string_view set, bool left, bool right) {
  return StripIf(text, left, right, [&](char32_t character) {
    for (size_t offset = 0; offset < set.size();) {
      if (text::NextCodePoint(set, offset) == character) return true;
    }
    return false;
  });
}

std::string ReprText(std::string_view text) {
  const bool single = text.find('\'') != std::string_view::npos;
  const char quote = single && text.find('"') == std::string_view::npos ? '"' : '\'';
  std::string repr(1, quote);
  for (size_t offset = 0; offset < text.size();) {
    const char32_t c = text::NextCodePoint(text, offset);
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      repr += '\\';
      repr += static_cast<char>(c);
    } else if (c == '\n') {
      repr += "\\n";
    } else if (c == '\r') {
      repr += "\\r";
    } else if (c == '\t') {
      repr += "\\t";
    } else if (IsPrintable(c)) {
      text::AppendUtf8(repr, c);
    } else if (c < 0x100) {
      AppendHex(repr, "\\x", c, 2);
    } else if (c < 0x10000) {
      AppendHex(repr, "\\u", c, 4);
    } else {
      AppendHex(repr, "\\U", c, 8);
    }
  }
  return repr + quote;
}

std::string ReprFloat(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[40];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  const std::string_view text(buffer, static_cast<size_t>(end.ptr - buffer));
  const size_t mark = text.find('e');
  std::string digits;
  for (const char c : text.substr(0, mark)) {
    if (c >= '0' && c <= '9') digits += c;
  }
  const std::string_view exponent_text = text.substr(mark + 1);
  int exponent = 0;
  for (const char c : exponent_text.substr(1)) exponent = exponent * 10 + (c - '0');
  if (exponent_text[0] == '-') exponent = -exponent;
  std::string repr = std::signbit(value) ? "-" : "";
  if (exponent < -4 || exponent >= 16) {
    repr += digits[0];
    if (digits.size() > 1) repr += '.' + digits.substr(1);
    const std::string size = std::to_string(std::abs(exponent));
    return repr + (exponent < 0 ? "e-" : "e+") + (size.size() < 2 ? "0" : "") + size;
  }
  if (exponent < 0)
    return repr + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  const size_t whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= whole) return repr + digits + std::string(whole - digits.size(), '0') + ".0";
  return repr + digits.substr(0, whole) + '.' + digits.substr(whole);
}

}  // namespace oort::python
