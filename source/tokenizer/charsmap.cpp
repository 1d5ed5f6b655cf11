// SPDX-License-Identifier: MIT
#include "tokenizer/charsmap.h"

#include "oort/error.h"
#include "text/utf8.h"

namespace oort::tokenizer {
namespace {

uint32_t LittleEndian(std::string_view bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) {
    value |= uint32_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
  }
  return value;
}

bool HasLeaf(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t LabelOf(uint32_t unit) { return unit & ((uint32_t{1} << 31) | 0xFF); }
uint32_t OffsetOf(uint32_t unit) { return unit >> 10 << ((unit & (1U << 9)) >> 6); }

}  // namespace

Charsmap::Charsmap(std::string_view blob) {
  if (blob.empty()) return;
  if (blob.size() < 4) throw Error(ErrorCode::kInvalidModel, "the precompiled charsmap is cut off");
  const uint32_t size = LittleEndian(blob, 0);
  blob.remove_prefix(4);
  if (size >= blob.size() || size % 4 != 0) {
    throw Error(ErrorCode::kInvalidModel,
                "the precompiled charsmap has " + std::to_string(blob.size()) +
                    " bytes, too few for its table of " + std::to_string(size));
  }
  units_.resize(size / 4);
  for (size_t i = 0; i < units_.size(); ++i) units_[i] = LittleEndian(blob, 4 * i);
  replacements_ = blob.substr(size);
  if (replacements_.back() != '\0') replacements_ += '\0';
  if (!text::IsValidUtf8(replacements_)) {
    throw Error(ErrorCode::kInvalidModel, "the precompiled charsmap holds text that is not UTF-8");
  }
}

template <bool longest>
Charsmap::Found Charsmap::Find(std::string_view text) const {
  Found found;
  if (units_.empty()) return found;
  uint32_t node = OffsetOf(units_[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte == 0) break;
    node ^= byte;
    if (node >= units_.size()) break;
    const uint32_t unit = units_[node];
    if (LabelOf(unit) != byte) break;
    node ^= OffsetOf(unit);
    if (!HasLeaf(unit)) continue;
    if (node >= units_.size()) break;
    const uint32_t value = units_[node] & 0x7FFFFFFF;
    if (value >= replacements_.size()) break;
    const size_t end = replacements_.find('\0', value);
    const std::string_view all = replacements_;
    found = {i + 1, all.substr(value, end - value)};
    // A rule points at the beginning of a character, or the file is damaged.
    if (!text::IsValidUtf8(found.replacement)) found.replacement = text::kReplacementText;
    if (!longest) break;
  }
  return found;
}

Charsmap::Found Charsmap::LongestPrefix(std::string_view text) const { return Find<true>(text); }
Charsmap::Found Charsmap::FirstPrefix(std::string_view text) const { return Find<false>(text); }

}  // namespace oort::tokenizer
