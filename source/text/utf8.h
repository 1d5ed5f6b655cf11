// SPDX-License-Identifier: MIT
// UTF-8 in and out. Text inside of tokenizers and chat templates is always valid: MakeValidUtf8 or
// IsValidUtf8 stands at the door, or a normalizer that takes any bytes. Surrogates, which a
// template can write as an escape, count as valid there: they have the form of other characters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace oort::text {

inline constexpr uint32_t kReplacement = 0xFFFD;
inline constexpr std::string_view kReplacementText = "\xEF\xBF\xBD";

/// Length of the character that begins with this byte, in valid text.
inline size_t LengthFromLead(unsigned char lead) {
  return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

/// Decodes the character at `at` of valid text and steps over it.
inline uint32_t NextCodePoint(std::string_view text, size_t& at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const uint32_t lead = byte(0);
  if (lead < 0x80) {
    at += 1;
    return lead;
  }
  if (lead < 0xE0) {
    const uint32_t c = (lead & 0x1F) << 6 | (byte(1) & 0x3FU);
    at += 2;
    return c;
  }
  if (lead < 0xF0) {
    const uint32_t c = (lead & 0x0F) << 12 | (byte(1) & 0x3FU) << 6 | (byte(2) & 0x3FU);
    at += 3;
    return c;
  }
  const uint32_t c =
      (lead & 0x07) << 18 | (byte(1) & 0x3FU) << 12 | (byte(2) & 0x3FU) << 6 | (byte(3) & 0x3FU);
  at += 4;
  return c;
}

/// Whether a byte goes on with a character that another has begun.
inline bool IsContinuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

/// Where the character before `at` begins, in valid text; `at` must not be 0.
inline size_t PreviousStart(std::string_view text, size_t at) {
  do {
    --at;
  } while (at > 0 && IsContinuation(text[at]));
  return at;
}

void AppendUtf8(std::string& text, uint32_t code_point);
inline std::string ToUtf8(uint32_t code_point) {
  std::string text;
  AppendUtf8(text, code_point);
  return text;
}

/// What stands at the front of bytes that may be anything.
struct Utf8Front {
  enum Kind : unsigned char { kCharacter, kIllFormed, kIncomplete } kind;
  size_t
      length;  ///< of the character, or of the maximal ill-formed part that one U+FFFD stands for
};
Utf8Front FrontOf(std::string_view bytes);

bool IsValidUtf8(std::string_view bytes);
/// Each maximal ill-formed part becomes one U+FFFD.
std::string MakeValidUtf8(std::string_view bytes);
int64_t CountCodePoints(std::string_view text);
/// Where character `index` of valid text begins; the end for an index behind it.
size_t OffsetOfCodePoint(std::string_view text, int64_t index);

/// Turns bytes that come in parts into valid text, holding back what may still become a character.
class Utf8Joiner {
 public:
  void Push(std::string_view bytes, std::string& out);
  void Flush(std::string& out);

 private:
  std::string held_;
};

}  // namespace oort::text
