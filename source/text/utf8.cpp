// SPDX-License-Identifier: MIT
#include "text/utf8.h"

#include <algorithm>

namespace oort::text {

void AppendUtf8(std::string& text, uint32_t c) {
  if (c < 0x80) {
    text += static_cast<char>(c);
  } else if (c < 0x800) {
    text += static_cast<char>(0xC0 | c >> 6);
    text += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    text += static_cast<char>(0xE0 | c >> 12);
    text += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    text += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    text += static_cast<char>(0xF0 | c >> 18);
    text += static_cast<char>(0x80 | (c >> 12 & 0x3F));
    text += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    text += static_cast<char>(0x80 | (c & 0x3F));
  }
}

Utf8Front FrontOf(std::string_view bytes) {
  const auto lead = static_cast<unsigned char>(bytes[0]);
  if (lead < 0x80) return {Utf8Front::kCharacter, 1};
  if (lead < 0xC2 || lead > 0xF4) return {Utf8Front::kIllFormed, 1};
  const size_t length = LengthFromLead(lead);
  for (size_t i = 1; i < length; ++i) {
    if (i == bytes.size()) return {Utf8Front::kIncomplete, i};
    const auto byte = static_cast<unsigned char>(bytes[i]);
    unsigned char low = 0x80;
    unsigned char high = 0xBF;
    if (i == 1) {  // no overlong forms, no surrogates, nothing above U+10FFFF
      if (lead == 0xE0) low = 0xA0;
      if (lead == 0xED) high = 0x9F;
      if (lead == 0xF0) low = 0x90;
      if (lead == 0xF4) high = 0x8F;
    }
    if (byte < low || byte > high) return {Utf8Front::kIllFormed, i};
  }
  return {Utf8Front::kCharacter, length};
}

bool IsValidUtf8(std::string_view bytes) {
  while (!bytes.empty()) {
    if (static_cast<unsigned char>(bytes[0]) < 0x80) {
      bytes.remove_prefix(1);
      continue;
    }
    const Utf8Front front = FrontOf(bytes);
    if (front.kind != Utf8Front::kCharacter) return false;
    bytes.remove_prefix(front.length);
  }
  return true;
}

std::string MakeValidUtf8(std::string_view bytes) {
  std::string out;
  Utf8Joiner joiner;
  joiner.Push(bytes, out);
  joiner.Flush(out);
  return out;
}

int64_t CountCodePoints(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return !IsContinuation(c); });
}

size_t OffsetOfCodePoint(std::string_view text, int64_t index) {
  size_t offset = 0;
  for (; index > 0 && offset < text.size(); --index) NextCodePoint(text, offset);
  return offset;
}

void Utf8Joiner::Push(std::string_view bytes, std::string& out) {
  std::string joined;
  if (!held_.empty()) {
    joined = held_;
    joined += bytes;
    bytes = joined;
  }
  while (!bytes.empty()) {
    const Utf8Front front = FrontOf(bytes);
    if (front.kind == Utf8Front::kIncomplete) break;
    out += front.kind == Utf8Front::kCharacter ? bytes.substr(0, front.length) : kReplacementText;
    bytes.remove_prefix(front.length);
  }
  held_ = std::string(bytes);
}

void Utf8Joiner::Flush(std::string& out) {
  if (!held_.empty()) out += kReplacementText;
  held_.clear();
}

}  // namespace oort::text
