// SPDX-License-Identifier: MIT
// sentencepiece's precompiled charsmap: a double array of byte strings and what each becomes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace oort::tokenizer {

class Charsmap {
 public:
  Charsmap() = default;  ///< maps nothing
  /// Throws kInvalidModel where the blob is damaged.
  explicit Charsmap(std::string_view blob);

  bool empty() const { return units_.empty(); }
  struct Found {
    size_t length = 0;  ///< 0: no rule
    std::string_view replacement;
  };
  Found LongestPrefix(std::string_view text) const;
  /// What Hugging Face takes for the rule of a whole string: that of its shortest prefix with one.
  Found FirstPrefix(std::string_view text) const;

 private:
  template <bool longest>
  Found Find(std::string_view text) const;
  std::vector<uint32_t> units_;
  std::string replacements_;
};

}  // namespace oort::tokenizer
