// SPDX-License-Identifier: MIT
#include "chat_template/text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>

namespace oort::jinja {
namespace {

struct TextRange {
  uint32_t first, more;
};
struct TextShift {
  uint32_t first, last;
  uint16_t step;
  int32_t distance;
};
struct TextSpelling {
  uint32_t character;
  uint32_t spelling[3];
};

#include "chat_template/text_tables.inc"

template <size_t N>
bool In(const TextRange (&ranges)[N], char32_t character) {
  const auto after =
      std::upper_bound(std::begin(ranges), std::end(ranges), character,
                       [](char32_t value, const TextRange& range) { return value < range.first; });
  return after != std::begin(ranges) &&
         character - std::prev(after)->first <= std::prev(after)->more;
}

template <size_t N>
const TextShift* FindShift(const TextShift (&shifts)[N], char32_t character) {
  const auto after =
      std::upper_bound(std::begin(shifts), std::end(shifts), character,
                       [](char32_t value, const TextShift& shift) { return value < shift.first; });
  // Runs with a step may enclose others, so a few before are looked at as well.
  for (auto shift = after; shift != std::begin(shifts) && after - shift < 8;) {
    --shift;
    if (character <= shift->last && (character - shift->first) % shift->step == 0) return shift;
  }
  return nullptr;
}

template <size_t N>
bool AppendSpelling(const TextSpelling (&spellings)[N], char32_t character, std::string& text) {
  for (const TextSpelling& spelling : spellings) {
    if (spelling.character != character) continue;
    for (const uint32_t part : spelling.spelling) {
      if (part != 0) AppendCharacter(text, part);
    }
    return true;
  }
  return false;
}

void AppendLower(std::string& text, char32_t character) {
  if (AppendSpelling(kToLowerLong, character, text)) return;
  const TextShift* shift = FindShift(kToLower, character);
  AppendCharacter(
      text,
      shift ? static_cast<char32_t>(static_cast<int32_t>(character) + shift->distance) : character);
}

void AppendUpper(std::string& text, char32_t character) {
  if (AppendSpelling(kToUpperLong, character, text)) return;
  const TextShift* shift = FindShift(kToUpper, character);
  AppendCharacter(
      text,
      shift ? static_cast<char32_t>(static_cast<int32_t>(character) + shift->distance) : character);
}

void AppendTitle(std::string& text, char32_t character) {
  if (AppendSpelling(kToTitleLong, character, text)) return;
  if (const TextShift* shift = FindShift(kToTitle, character)) {
    AppendCharacter(text, static_cast<char32_t>(static_cast<int32_t>(character) + shift->distance));
  } else {
    AppendUpper(text, character);
  }
}

bool IsCased(char32_t character) {
  return IsLower(character) || IsUpper(character) || IsTitle(character);
}

/// Greek sigma is written ς at the end of a word.
bool EndsWord(std::string_view text, size_t begin, size_t end) {
  bool letter_before = false;
  for (size_t at = begin; at > 0;) {
    --at;
    while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
    size_t next = at;
    const char32_t character = NextCharacter(text, &next);
    if (In(kCaseIgnorable, character)) continue;
    letter_before = IsCased(character);
    break;
  }
  while (letter_before && end < text.size()) {
    const char32_t character = NextCharacter(text, &end);
    if (!In(kCaseIgnorable, character)) return !IsCased(character);
  }
  return letter_before;
}

constexpr char32_t kSigma = 0x3A3;

void AppendLowerIn(std::string& out, std::string_view text, size_t begin, size_t end,
                   char32_t character) {
  if (character == kSigma) {
    AppendCharacter(out, EndsWord(text, begin, end) ? 0x3C2 : 0x3C3);
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

char32_t NextCharacter(std::string_view text, size_t* offset) {
  const auto byte = [&](size_t i) -> char32_t {
    return i < text.size() ? static_cast<unsigned char>(text[i]) & 0x3Fu : 0;
  };
  const size_t at = *offset;
  const char32_t first = static_cast<unsigned char>(text[at]);
  if (first < 0xC0) {
    *offset = at + 1;
    return first;
  }
  const size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  *offset = std::min(at + length, text.size());
  if (length == 2) return (first & 0x1F) << 6 | byte(at + 1);
  if (length == 3) return (first & 0x0F) << 12 | byte(at + 1) << 6 | byte(at + 2);
  return (first & 0x07) << 18 | byte(at + 1) << 12 | byte(at + 2) << 6 | byte(at + 3);
}

void AppendCharacter(std::string& text, char32_t c) {
  const auto tail = [](char32_t bits) { return static_cast<char>(0x80 | (bits & 0x3F)); };
  if (c < 0x80) {
    text += static_cast<char>(c);
  } else if (c < 0x800) {
    text += static_cast<char>(0xC0 | c >> 6);
    text += tail(c);
  } else if (c < 0x10000) {
    text += static_cast<char>(0xE0 | c >> 12);
    text += tail(c >> 6);
    text += tail(c);
  } else {
    text += static_cast<char>(0xF0 | c >> 18);
    text += tail(c >> 12);
    text += tail(c >> 6);
    text += tail(c);
  }
}

bool IsUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const unsigned char first = static_cast<unsigned char>(text[i]);
    if (first < 0x80) {
      ++i;
      continue;
    }
    const size_t length = first < 0xC2   ? 0
                          : first < 0xE0 ? 2
                          : first < 0xF0 ? 3
                          : first < 0xF5 ? 4
                                         : 0;
    if (length == 0 || text.size() - i < length) return false;
    for (size_t k = 1; k < length; ++k) {
      if ((static_cast<unsigned char>(text[i + k]) & 0xC0) != 0x80) return false;
    }
    const char32_t character = NextCharacter(text, &i);
    const char32_t least = length == 2 ? 0x80 : length == 3 ? 0x800 : 0x10000;
    if (character < least || character > 0x10FFFF || (character >= 0xD800 && character < 0xE000)) {
      return false;
    }
  }
  return true;
}

int64_t CountCharacters(std::string_view text) {
  int64_t count = 0;
  for (const char byte : text) count += (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
  return count;
}

size_t OffsetOf(std::string_view text, int64_t index) {
  size_t offset = 0;
  for (; index > 0 && offset < text.size(); --index) NextCharacter(text, &offset);
  return offset;
}

bool IsSpace(char32_t c) {
  return (c >= 9 && c <= 13) || (c >= 28 && c <= 32) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}
bool IsAlpha(char32_t character) { return In(kAlpha, character); }
bool IsDecimal(char32_t character) { return In(kDecimal, character); }
bool IsDigit(char32_t character) { return In(kDigit, character); }
bool IsNumeric(char32_t character) { return In(kNumeric, character); }
bool IsPrintable(char32_t character) { return !In(kUnprintable, character); }
bool IsLower(char32_t character) { return In(kLower, character); }
bool IsUpper(char32_t character) { return In(kUpper, character); }
bool IsTitle(char32_t character) { return In(kTitle, character); }

std::string Lower(std::string_view text) {
  std::string lower;
  for (size_t offset = 0; offset < text.size();) {
    const size_t begin = offset;
    const char32_t character = NextCharacter(text, &offset);
    AppendLowerIn(lower, text, begin, offset, character);
  }
  return lower;
}

std::string Upper(std::string_view text) {
  std::string upper;
  for (size_t offset = 0; offset < text.size();) AppendUpper(upper, NextCharacter(text, &offset));
  return upper;
}

std::string Capitalize(std::string_view text) {
  std::string capital;
  for (size_t offset = 0; offset < text.size();) {
    const size_t begin = offset;
    const char32_t character = NextCharacter(text, &offset);
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
    const char32_t character = NextCharacter(text, &offset);
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
    const char32_t character = NextCharacter(text, &offset);
    if (IsUpper(character)) {
      AppendLowerIn(swapped, text, begin, offset, character);
    } else if (IsLower(character)) {
      AppendUpper(swapped, character);
    } else {
      AppendCharacter(swapped, character);
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
    if (!drop(NextCharacter(text, &next))) break;
    begin = next;
  }
  size_t end = text.size();
  while (right && end > begin) {
    size_t last = end - 1;
    while (last > begin && (static_cast<unsigned char>(text[last]) & 0xC0) == 0x80) --last;
    size_t next = last;
    if (!drop(NextCharacter(text, &next))) break;
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
      if (NextCharacter(set, &offset) == character) return true;
    }
    return false;
  });
}

std::string ReprText(std::string_view text) {
  const bool single = text.find('\'') != std::string_view::npos;
  const char quote = single && text.find('"') == std::string_view::npos ? '"' : '\'';
  std::string repr(1, quote);
  for (size_t offset = 0; offset < text.size();) {
    const char32_t c = NextCharacter(text, &offset);
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
      AppendCharacter(repr, c);
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

}  // namespace oort::jinja
