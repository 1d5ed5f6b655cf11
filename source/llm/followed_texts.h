// SPDX-License-Identifier: MIT
// What encoder-decoders have read where several ranks compute them: each rank reads a text by
// itself, when rank 0 does, and keeps it for as long.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "oort/kv_cache.h"

namespace oort {

/// Texts that rank 0 has told the other ranks to read.
/// Thread contract: one thread at a time; texts may end on others meanwhile.
class ToldTexts {
 public:
  void Add(const std::shared_ptr<const EncodedText>& text);
  /// Numbers of those that nobody on rank 0 needs any more, each once.
  std::vector<int64_t> TakeEnded();

 private:
  std::map<int64_t, std::weak_ptr<const EncodedText>> texts_;
};

/// Texts on the other ranks, by the numbers that rank 0 gave them.
/// Thread contract: one thread at a time.
class FollowedTexts {
 public:
  /// Throws kDevice where what rank 0 says makes no sense, here and below.
  void Add(int64_t number, std::shared_ptr<const EncodedText> text);
  void End(std::span<const int64_t> numbers);
  /// Null for numbers below 0.
  const EncodedText* At(int64_t number) const;
  size_t size() const { return texts_.size(); }

 private:
  std::map<int64_t, std::shared_ptr<const EncodedText>> texts_;
};

}  // namespace oort
