// SPDX-License-Identifier: MIT
// Items of a loop that a team works off together. Only for parallel.cpp.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace oort {

/// Each thread has a share, from whose front it takes smaller and smaller portions; one whose share
/// is empty goes on with half of what another has left. So all end at about the same time, also
/// where one has the slower core or loses it for a while, and those that are equally fast stay in
/// memory of their own.
class WorkShares {
 public:
  static constexpr int kMost = 64;

  /// As many shares as even out, at most kMost; nothing smaller than `least` items is handed out
  /// unless it is what is left.
  WorkShares(int64_t count, int shares, int64_t least);

  struct Portion {
    int64_t begin = 0, end = 0;
    bool empty() const { return begin == end; }
  };
  /// For the thread of share `mine`; empty where nothing is left. Of each share one at a time.
  Portion Take(int mine);

 private:
  /// Units that are left of a share: the first one in the low half, the end in the high one.
  struct alignas(64) Share {
    std::atomic<uint64_t> left;
  };

  /// Whether another share had something.
  bool TakeOver(int mine);
  Portion Items(uint64_t first, uint64_t end) const;

  int64_t count_, least_;
  int shares_;
  std::array<Share, kMost> left_of_;
};

}  // namespace oort
