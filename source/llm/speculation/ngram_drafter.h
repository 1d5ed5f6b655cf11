// SPDX-License-Identifier: MIT
// Guesses from the text itself: what followed the last tokens where they stood before.
#pragma once

#include <unordered_map>
#include <vector>

#include "llm/speculation/drafter.h"

namespace oort {

/// Finds where the last tokens of a sequence stood before, as packers of files do: all places of a
/// pair of tokens are in a chain, the newest first.
class TokenHistory {
 public:
  /// The newest tokens that it finds, so that its memory is bounded: 12 bytes for each of these.
  static constexpr size_t kMostTokens = size_t{1} << 16;
  static constexpr size_t kLeastMatch = 2;
  static constexpr size_t kLongestMatch = 32;  ///< longer ones are not told apart

  struct Match {
    size_t next = 0;    ///< the place behind it
    size_t length = 0;  ///< 0: there is none
  };
  /// The longest match of the end of `tokens` with an earlier part, of equally long ones the
  /// newest. The tokens begin with those of the last call.
  Match Find(std::span<const int32_t> tokens);

 private:
  void Add(std::span<const int32_t> tokens);
  void Resize(std::span<const int32_t> tokens);
  static uint64_t Hash(int32_t first, int32_t second);

  std::vector<uint32_t> newest_;  // of each hash: a place behind a pair; 0: none
  std::vector<uint32_t> before_;  // of each place: the one before with that hash, as a ring
  size_t added_ = kLeastMatch;    // the first place that is not entered yet
};

class NgramDrafter final : public Drafter {
 public:
  void Draft(std::span<DraftAsk> asks) override;
  void Forget(int64_t id) noexcept override { histories_.erase(id); }
  std::array<double, kSurenessClasses> UsualOdds() const override;
  bool is_free() const override { return true; }

 private:
  std::unordered_map<int64_t, TokenHistory> histories_;
};

}  // namespace oort
