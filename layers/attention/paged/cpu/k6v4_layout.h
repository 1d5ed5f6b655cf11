// SPDX-License-Identifier: MIT
// Where the parts of KvType::kK6V4 stand. Elements of a head are in groups of 32, the last one
// filled up. A block of 16 tokens has
//
//   keys    a centre for each element, which is what the first token of the block has there, in
//           8 bits with a scale (f32) of the group; and of each token how far it is from the
//           centre, in 6 bits with a scale (f16) of the group
//   values  4 bits, with a scale and a minimum (f16) of the token's group
//
// Keys have channels that are large in all tokens alike, in some models a hundred times the others
// (the bias of Qwen2's keys, for example). A centre takes that away, so that few bits are left to
// say. What is stored of a token depends on it and on the first of its block alone: not on how a
// prompt was cut, and nothing is written again when a block is full.
#pragma once

#include <cstddef>
#include <cstdint>

#include "oort/kv_cache.h"

namespace oort {

struct K6V4Layout {
  static constexpr int64_t kGroup = 32;
  static constexpr int64_t kTokens = KvCache::kBlockTokens;
  // What a number of 6 bits (0 to 63) and one of 8 bits mean: multiples of the scale, of which the
  // former lie around 0 between two whole numbers.
  static constexpr float kKeyMiddle = 31.5f, kValueMost = 15;

  int64_t groups;
  constexpr explicit K6V4Layout(int64_t head_dim) : groups((head_dim + kGroup - 1) / kGroup) {}

  // Keys. Low four bits: (elements / 2, tokens), the second element of a pair in the upper half.
  static constexpr int64_t LowBits(int64_t d) { return d / 2 * kTokens; }
  /// High two bits: (elements / 4, tokens), of the first element lowest.
  constexpr int64_t HighBits(int64_t d) const { return groups * 256 + d / 4 * kTokens; }
  /// (groups, tokens) of f16.
  constexpr int64_t KeyScales(int64_t group) const { return groups * 384 + group * 2 * kTokens; }
  constexpr int64_t Centres() const { return groups * 416; }
  constexpr int64_t CentreScales() const { return groups * 448; }
  constexpr int64_t key_bytes() const { return groups * 452; }

  // Values. (tokens, groups, 16): elements i and i + 16 of a group in the halves of a byte.
  constexpr int64_t ValueBits(int64_t token, int64_t d) const {
    return token * groups * 16 + d / kGroup * 16 + d % 16;
  }
  /// (tokens, groups, 2) of f16: scale and minimum.
  constexpr int64_t ValueScales(int64_t token, int64_t group) const {
    return groups * 256 + (token * groups + group) * 4;
  }
  constexpr int64_t value_bytes() const { return groups * 320; }
};

}  // namespace oort
