// SPDX-License-Identifier: MIT
// Hash tables of the tokenizer's inner loops: open addressing, no allocation when looking up.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace oort::tokenizer {

inline uint64_t MixHash(uint64_t x) {
  x ^= x >> 32;
  x *= 0x9E3779B97F4A7C15U;
  x ^= x >> 29;
  x *= 0xBF58476D1CE4E5B9U;
  return x ^ x >> 32;
}

inline uint64_t HashOf(std::string_view text) {
  uint64_t hash = text.size() * 0x9E3779B97F4A7C15U;
  const char* at = text.data();
  size_t left = text.size();
  for (; left >= 8; left -= 8, at += 8) {
    uint64_t part = 0;
    std::memcpy(&part, at, 8);
    hash = MixHash(hash ^ part);
  }
  if (left > 0) {
    uint64_t part = 0;
    std::memcpy(&part, at, left);
    hash = MixHash(hash ^ part);
  }
  return hash;
}

/// Numbers of strings that somebody else keeps.
class StringIndex {
 public:
  explicit StringIndex(size_t expected = 0) { Resize(expected); }

  /// The number of `key`, or -1. `key_of(number)` gives a stored key.
  template <typename KeyOf>
  int32_t Find(std::string_view key, KeyOf key_of) const {
    const uint64_t hash = HashOf(key);
    for (size_t i = hash & mask_;; i = (i + 1) & mask_) {
      const Slot& slot = slots_[i];
      if (slot.number < 0) return -1;
      if (slot.tag == static_cast<uint32_t>(hash >> 32) && key_of(slot.number) == key) {
        return slot.number;
      }
    }
  }
  /// The key must not be there yet.
  template <typename KeyOf>
  void Add(std::string_view key, int32_t number, KeyOf key_of) {
    if (2 * (count_ + 1) > slots_.size()) {
      const std::vector<Slot> old = std::move(slots_);
      Resize(2 * count_ + 8);
      for (const Slot& slot : old) {
        if (slot.number >= 0) Put(HashOf(key_of(slot.number)), slot.number);
      }
    }
    Put(HashOf(key), number);
  }
  /// Gives a key that is there another number.
  template <typename KeyOf>
  void Renumber(std::string_view key, int32_t number, KeyOf key_of) {
    const uint64_t hash = HashOf(key);
    size_t i = hash & mask_;
    while (slots_[i].tag != static_cast<uint32_t>(hash >> 32) || key_of(slots_[i].number) != key) {
      i = (i + 1) & mask_;
    }
    slots_[i].number = number;
  }
  void Clear() { Resize(0); }

 private:
  struct Slot {
    uint32_t tag;
    int32_t number;
  };
  void Resize(size_t expected) {
    slots_.assign(std::bit_ceil(2 * expected + 16), Slot{0, -1});
    mask_ = slots_.size() - 1;
    count_ = 0;
  }
  void Put(uint64_t hash, int32_t number) {
    size_t i = hash & mask_;
    while (slots_[i].number >= 0) i = (i + 1) & mask_;
    slots_[i] = {static_cast<uint32_t>(hash >> 32), number};
    ++count_;
  }
  std::vector<Slot> slots_;
  size_t mask_ = 0, count_ = 0;
};

/// What a pair of tokens merges into.
class MergeTable {
 public:
  struct Merge {
    uint32_t rank;
    int32_t id;
  };
  static constexpr uint32_t kNone = static_cast<uint32_t>(-1);

  explicit MergeTable(size_t expected = 0)
      : slots_(std::bit_ceil(2 * expected + 16), Slot{kEmpty, {kNone, -1}}),
        mask_(slots_.size() - 1) {}

  /// The last word about a pair counts. No more pairs than expected.
  void Set(int32_t left, int32_t right, Merge merge) {
    const uint64_t key = KeyOf(left, right);
    size_t i = MixHash(key) & mask_;
    while (slots_[i].key != kEmpty && slots_[i].key != key) i = (i + 1) & mask_;
    slots_[i] = {key, merge};
  }
  Merge Find(int32_t left, int32_t right) const {
    const uint64_t key = KeyOf(left, right);
    for (size_t i = MixHash(key) & mask_;; i = (i + 1) & mask_) {
      if (slots_[i].key == key) return slots_[i].merge;
      if (slots_[i].key == kEmpty) return {kNone, -1};
    }
  }

 private:
  static constexpr uint64_t kEmpty = static_cast<uint64_t>(-1);
  struct Slot {
    uint64_t key;
    Merge merge;
  };
  static uint64_t KeyOf(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }
  std::vector<Slot> slots_;
  size_t mask_;
};

/// A trie of byte strings, each with a number.
class ByteTrie {
 public:
  static constexpr uint32_t kNoNode = static_cast<uint32_t>(-1);

  /// A string that comes twice keeps its last number.
  void Add(std::string_view key, int32_t number) {
    uint32_t node = 0;
    for (const char byte : key) {
      uint32_t& child = Slot(node, static_cast<unsigned char>(byte));
      if (child == kNoNode) {
        child = static_cast<uint32_t>(numbers_.size());
        numbers_.push_back(-1);
      }
      node = child;
    }
    numbers_[node] = number;
  }
  bool empty() const { return numbers_.size() == 1; }
  uint32_t Child(uint32_t node, unsigned char byte) const {
    if (node == 0) return first_[byte];
    const uint64_t key = uint64_t{node} << 8 | byte;
    for (size_t i = MixHash(key) & mask_;; i = (i + 1) & mask_) {
      if (keys_[i] == key) return children_[i];
      if (keys_[i] == 0) return kNoNode;
    }
  }
  int32_t Number(uint32_t node) const { return numbers_[node]; }

  struct Found {
    size_t length = 0;
    int32_t number = -1;
  };
  Found LongestPrefix(std::string_view text) const {
    Found found;
    uint32_t node = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      node = Child(node, static_cast<unsigned char>(text[i]));
      if (node == kNoNode) break;
      if (numbers_[node] >= 0) found = {i + 1, numbers_[node]};
    }
    return found;
  }

 private:
  uint32_t& Slot(uint32_t node, unsigned char byte) {
    if (node == 0) return first_[byte];
    if (2 * (count_ + 1) > keys_.size()) Grow();
    const uint64_t key = uint64_t{node} << 8 | byte;
    size_t i = MixHash(key) & mask_;
    while (keys_[i] != 0 && keys_[i] != key) i = (i + 1) & mask_;
    if (keys_[i] == 0) {
      keys_[i] = key;
      ++count_;
    }
    return children_[i];
  }
  void Grow() {
    const std::vector<uint64_t> keys = std::move(keys_);
    const std::vector<uint32_t> children = std::move(children_);
    keys_.assign(2 * keys.size(), 0);
    children_.assign(2 * keys.size(), kNoNode);
    mask_ = keys_.size() - 1;
    for (size_t k = 0; k < keys.size(); ++k) {
      if (keys[k] == 0) continue;
      size_t i = MixHash(keys[k]) & mask_;
      while (keys_[i] != 0) i = (i + 1) & mask_;
      keys_[i] = keys[k];
      children_[i] = children[k];
    }
  }
  std::vector<uint32_t> first_ = std::vector<uint32_t>(256, kNoNode);
  std::vector<uint64_t> keys_ = std::vector<uint64_t>(16, 0);
  std::vector<uint32_t> children_ = std::vector<uint32_t>(16, kNoNode);
  std::vector<int32_t> numbers_ = {-1};
  size_t mask_ = 15, count_ = 0;
};

}  // namespace oort::tokenizer
