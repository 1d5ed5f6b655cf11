// SPDX-License-Identifier: MIT
#include "text/base64.h"

#include <cstdint>

#include "oort/error.h"

namespace oort::text {

std::string DecodeBase64(std::string_view text, std::string_view what) {
  constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  uint32_t bits = 0;
  int count = 0;
  while (text.ends_with('=')) text.remove_suffix(1);
  for (const char c : text) {
    const size_t digit = kAlphabet.find(c);
    if (digit == std::string_view::npos) {
      throw Error(ErrorCode::kInvalidModel, std::string(what) + " is not base64");
    }
    bits = bits << 6 | static_cast<uint32_t>(digit);
    count += 6;
    if (count >= 8) {
      count -= 8;
      out += static_cast<char>(bits >> count & 0xFF);
    }
  }
  return out;
}

}  // namespace oort::text
