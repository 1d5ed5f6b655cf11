// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace oort::serve {

/// Words that let a caller in. None: everybody may.
class ApiKeys {
 public:
  static constexpr size_t kMostBytes = 256;
  static constexpr size_t kMostKeys = 10'000;

  ApiKeys() = default;
  /// Throws kInvalidArgument for a key that is too long, or that no header can hold.
  explicit ApiKeys(const std::vector<std::string>& keys);
  /// One key a line; empty lines and those that begin with # are passed over.
  static ApiKeys FromFile(const std::filesystem::path& path);

  /// The keys of `fresh` from now on. One that is there already keeps its number, and no other ever
  /// gets it: by number the cache keeps apart what different keys have asked.
  void Replace(const ApiKeys& fresh);

  bool empty() const { return keys_.empty(); }
  /// Which key this is, from 1; 0 for none of them. It takes the same time for any word.
  int Find(std::string_view word) const;

 private:
  std::vector<std::string> keys_;  ///< each filled up to kMostBytes
  std::vector<int> numbers_;       ///< of the keys
  int last_number_ = 0;
};

}  // namespace oort::serve
