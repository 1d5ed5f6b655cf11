// SPDX-License-Identifier: MIT
// Ids of words that came before: most words of a text do.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "tokenizer/hashing.h"

namespace oort::tokenizer {

class WordCache {
 public:
  static constexpr size_t kLongestWord = 48;

  /// The ids of a word, or nothing.
  const int32_t* Find(std::string_view word, size_t& count) const {
    if (slots_.empty()) return nullptr;
    const uint64_t hash = HashOf(word);
    for (size_t i = hash & mask_;; i = (i + 1) & mask_) {
      const Slot& slot = slots_[i];
      if (slot.length == 0) return nullptr;
      if (slot.tag != static_cast<uint32_t>(hash >> 32) || slot.length != word.size()) continue;
      if (std::memcmp(keys_.data() + slot.key, word.data(), word.size()) != 0) continue;
      count = slot.count;
      return ids_.data() + slot.ids;
    }
  }
  /// The word must not be there; when there are too many, all are forgotten.
  void Add(std::string_view word, std::span<const int32_t> ids) {
    if (2 * (count_ + 1) > slots_.size()) {
      slots_.assign(kSlots, Slot{});
      mask_ = kSlots - 1;
      count_ = 0;
      keys_.clear();
      ids_.clear();
    }
    const uint64_t hash = HashOf(word);
    size_t i = hash & mask_;
    while (slots_[i].length != 0) i = (i + 1) & mask_;
    slots_[i] = {static_cast<uint32_t>(hash >> 32), static_cast<uint32_t>(keys_.size()),
                 static_cast<uint32_t>(ids_.size()), static_cast<uint16_t>(word.size()),
                 static_cast<uint16_t>(ids.size())};
    keys_.insert(keys_.end(), word.begin(), word.end());
    ids_.insert(ids_.end(), ids.begin(), ids.end());
    ++count_;
  }

 private:
  static constexpr size_t kSlots = size_t{1} << 16;
  struct Slot {
    uint32_t tag = 0, key = 0, ids = 0;
    uint16_t length = 0, count = 0;
  };
  std::vector<Slot> slots_;
  std::vector<char> keys_;
  std::vector<int32_t> ids_;
  size_t mask_ = 0, count_ = 0;
};

}  // namespace oort::tokenizer
