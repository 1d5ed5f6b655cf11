// SPDX-License-Identifier: MIT
// GPT-2's alphabet: every byte has a printable character.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace oort::tokenizer {

/// UTF-8 of the character that stands for a byte.
const std::array<std::string, 256>& ByteCharacters();
/// The byte that a character stands for.
std::optional<unsigned char> ByteOfCharacter(uint32_t code_point);

std::string ToByteLevel(std::string_view bytes);
/// The bytes that the text stands for; nothing where a character is not of the alphabet.
std::optional<std::string> FromByteLevel(std::string_view text);

}  // namespace oort::tokenizer
