// SPDX-License-Identifier: MIT
// Text as Python's str sees it: characters of UTF-8, their case and their kinds.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace oort::jinja {

/// The character that begins at `offset` of valid UTF-8, which moves behind it.
char32_t NextCharacter(std::string_view text, size_t* offset);
void AppendCharacter(std::string& text, char32_t character);
bool IsUtf8(std::string_view text);
int64_t CountCharacters(std::string_view text);
/// Where character `index` begins; the end of the text for an index behind it.
size_t OffsetOf(std::string_view text, int64_t index);

bool IsSpace(char32_t character);
bool IsAlpha(char32_t character);
bool IsDecimal(char32_t character);
bool IsDigit(char32_t character);
bool IsNumeric(char32_t character);
bool IsPrintable(char32_t character);
bool IsLower(char32_t character);
bool IsUpper(char32_t character);
bool IsTitle(char32_t character);

std::string Lower(std::string_view text);
std::string Upper(std::string_view text);
std::string Capitalize(std::string_view text);
std::string Title(std::string_view text);
std::string SwapCase(std::string_view text);

/// Without white space at either side.
std::string_view Strip(std::string_view text, bool left = true, bool right = true);
/// Without the characters that `set` holds.
std::string_view StripSet(std::string_view text, std::string_view set, bool left, bool right);

/// As Python writes a str in a list: quoted, with escapes.
std::string ReprText(std::string_view text);
/// The shortest digits that read back, written as Python does: 1.0, 1e-05, inf.
std::string ReprFloat(double value);

}  // namespace oort::jinja
