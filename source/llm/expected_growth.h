// SPDX-License-Identifier: MIT
// How long answers become, by those that ended so far, and how much room those of now will take.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "oort/kv_cache.h"

namespace oort {

/// Learns what part of the tokens that it may have an answer takes, and how many that are. Both
/// count: of requests with tight limits the part is near one and says most, of those without limits
/// it is next to nothing and the number does.
class AnswerLengths {
 public:
  void Ended(int64_t answered, int64_t allowed) {
    if (allowed <= 0) return;
    const double part = static_cast<double>(answered) / static_cast<double>(allowed);
    part_ += kWeightOfNewest * (part - part_);
    length_ += kWeightOfNewest * (static_cast<double>(answered) - length_);
  }
  /// Somebody had to give way: answers were longer than expected.
  void Exceeded() { part_ = std::min(1.0, part_ + (1 - part_) * kWeightOfNewest); }
  /// Tokens that an answer of so many so far will still have.
  int64_t Left(int64_t answered, int64_t allowed) const {
    const double whole = std::min(part_ * static_cast<double>(allowed), 2 * length_);
    const double left = std::max(whole - static_cast<double>(answered),
                                 kLeastPartLeft * static_cast<double>(answered));
    return std::min(static_cast<int64_t>(left) + 1, std::max<int64_t>(allowed - answered, 0));
  }

 private:
  static constexpr double kWeightOfNewest = 1.0 / 16;
  static constexpr double kLeastPartLeft = 0.25;  // of one that is longer than expected
  double part_ = 0.5, length_ = 256;              // before anything is known
};

/// A sequence as it will be: its tokens of now, in blocks of its own, and those that will follow,
/// one a step.
struct ExpectedLife {
  int64_t tokens = 0;
  int64_t left = 0;
};

/// Blocks that these take together when they take the most. Each ends when it has what is left to
/// it, and gives its blocks back: the most is taken just before one of them ends.
inline int64_t PeakBlocks(std::vector<ExpectedLife>& lives) {
  std::ranges::sort(lives, [](const ExpectedLife& a, const ExpectedLife& b) {
    return a.left != b.left ? a.left > b.left : a.tokens > b.tokens;
  });
  int64_t tokens = 0, alive = 0, peak = 0;
  for (const ExpectedLife& life : lives) {
    tokens += life.tokens;
    ++alive;
    // The last block of each is half full.
    peak = std::max(peak, tokens + alive * (life.left + KvCache::kBlockTokens / 2));
  }
  return KvCache::BlocksFor(peak);
}

}  // namespace oort
