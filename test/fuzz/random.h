// SPDX-License-Identifier: MIT
// Random numbers that are the same with every compiler and on every machine.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace oort::fuzz {

/// FNV-1a.
inline uint64_t Hash(std::string_view text, uint64_t hash = 0xcbf29ce484222325u) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

/// SplitMix64.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    state_ += 0x9e3779b97f4a7c15u;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  /// One of 0 … n-1; 0 where n is 0.
  size_t Below(size_t n) { return n == 0 ? 0 : static_cast<size_t>(Next() % n); }
  /// True once in n times.
  bool OneIn(size_t n) { return Below(n) == 0; }

  template <typename T, size_t N>
  const T& Pick(const T (&choices)[N]) {
    return choices[Below(N)];
  }
  /// The list must not be empty.
  template <typename T>
  const T& Pick(const std::vector<T>& choices) {
    return choices[Below(choices.size())];
  }

 private:
  uint64_t state_;
};

}  // namespace oort::fuzz
