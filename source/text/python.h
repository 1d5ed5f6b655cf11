// SPDX-License-Identifier: MIT
// Text as Python's str sees it: kinds and case of characters (Unicode 14.0, as in Python 3.11),
// white space, repr. Texts are valid UTF-8.
#pragma once

#include <string>
#include <string_view>

namespace oort::python {

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

}  // namespace oort::python
