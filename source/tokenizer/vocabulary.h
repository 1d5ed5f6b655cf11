// SPDX-License-Identifier: MIT
// Which piece has which id.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/hashing.h"

namespace oort::tokenizer {

/// Ids are numbers from a file: far more than any model has, and no reason to take memory for.
inline constexpr int64_t kMaxTokenId = (int64_t{1} << 24) - 1;

class Vocabulary {
 public:
  Vocabulary() = default;
  /// Throws kInvalidModel for an id that is out of range or taken. Of two equal pieces the later
  /// one is found.
  void Add(std::string_view piece, int64_t id);

  int32_t Find(std::string_view piece) const {
    return index_.Find(piece, [&](int32_t id) -> std::string_view { return piece_of(id); });
  }
  bool Has(int64_t id) const { return id >= 0 && id < size() && present_[static_cast<size_t>(id)]; }
  /// Empty where no piece has the id.
  std::string_view Piece(int64_t id) const { return Has(id) ? piece_of(id) : std::string_view(); }
  size_t count() const { return count_; }
  int64_t size() const { return static_cast<int64_t>(pieces_.size()); }

 private:
  std::string_view piece_of(int64_t id) const { return pieces_[static_cast<size_t>(id)]; }
  std::vector<std::string> pieces_;
  std::vector<bool> present_;
  StringIndex index_;
  size_t count_ = 0;
};

}  // namespace oort::tokenizer
