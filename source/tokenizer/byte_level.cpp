// SPDX-License-Identifier: MIT
#include "tokenizer/byte_level.h"

#include "text/utf8.h"

namespace oort::tokenizer {
namespace {

bool StandsForItself(uint32_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) ||
         (byte >= 0xAE && byte <= 0xFF);
}

struct Alphabet {
  std::array<std::string, 256> characters;
  std::array<int16_t, 0x180> bytes;

  Alphabet() {
    bytes.fill(-1);
    uint32_t next = 0x100;
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const uint32_t c = StandsForItself(byte) ? byte : next++;
      characters[byte] = text::ToUtf8(c);
      bytes[c] = static_cast<int16_t>(byte);
    }
  }
};

const Alphabet& TheAlphabet() {
  static const Alphabet alphabet;
  return alphabet;
}

}  // namespace

const std::array<std::string, 256>& ByteCharacters() { return TheAlphabet().characters; }

std::optional<unsigned char> ByteOfCharacter(uint32_t c) {
  const auto& bytes = TheAlphabet().bytes;
  if (c >= bytes.size() || bytes[c] < 0) return std::nullopt;
  return static_cast<unsigned char>(bytes[c]);
}

std::string ToByteLevel(std::string_view bytes) {
  std::string out;
  for (const char byte : bytes) out += ByteCharacters()[static_cast<unsigned char>(byte)];
  return out;
}

std::optional<std::string> FromByteLevel(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const auto byte = ByteOfCharacter(text::NextCodePoint(text, at));
    if (!byte) return std::nullopt;
    out += static_cast<char>(*byte);
  }
  return out;
}

}  // namespace oort::tokenizer
