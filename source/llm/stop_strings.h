// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace oort {

/// Ends a streamed answer before the first stop string. Text that may turn out to begin one is held
/// back, so that nothing is shown that has to be taken back. What comes out does not depend on how
/// the text is cut into pieces: the stop whose last byte comes first wins, and of those that end
/// together the longest.
class StopStrings {
 public:
  /// Throws kInvalidArgument for a stop that is empty or not UTF-8.
  explicit StopStrings(std::vector<std::string> stops = {});

  /// Takes the next piece of text (valid UTF-8) and returns what can be shown now; nothing once
  /// stopped.
  std::string Add(std::string_view piece);
  /// No more text comes: returns what was held back.
  std::string Finish();

  bool stopped() const { return !matched_.empty(); }
  /// The stop that ended the answer; empty where none did.
  const std::string& matched() const { return matched_; }

 private:
  struct Stop {
    std::string text;
    /// For each length of a matched prefix, the longest shorter one that also ends there.
    std::vector<size_t> shorter;
    size_t length = 0;  ///< of the prefix that the text ends with now
  };

  std::vector<Stop> stops_;
  std::string held_;
  std::string matched_;
};

}  // namespace oort
