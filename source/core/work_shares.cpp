// SPDX-License-Identifier: MIT
#include "core/work_shares.h"

#include <algorithm>

namespace oort {
namespace {

constexpr uint64_t kHalf = 32;

uint64_t Pack(uint64_t first, uint64_t end) { return end << kHalf | first; }
uint64_t FirstOf(uint64_t left) { return left & 0xffffffff; }
uint64_t EndOf(uint64_t left) { return left >> kHalf; }
uint64_t SizeOf(uint64_t left) { return EndOf(left) - FirstOf(left); }
uint64_t HalfOf(uint64_t left) { return (SizeOf(left) + 1) / 2; }

}  // namespace

WorkShares::WorkShares(int64_t count, int shares, int64_t least)
    : count_(count), shares_(std::clamp(shares, 1, kMost)) {
  constexpr int64_t kMostUnits = int64_t{1} << 31;
  least_ = std::max({int64_t{1}, least, count / kMostUnits + 1});
  const uint64_t units = static_cast<uint64_t>((count - 1) / least_ + 1);
  const uint64_t of_each = units / static_cast<uint64_t>(shares_);
  const uint64_t rest = units % static_cast<uint64_t>(shares_);
  uint64_t first = 0;
  for (int i = 0; i < shares_; ++i) {
    const uint64_t end = first + of_each + (static_cast<uint64_t>(i) < rest ? 1 : 0);
    left_of_[static_cast<size_t>(i)].left.store(Pack(first, end), std::memory_order_relaxed);
    first = end;
  }
}

// A share says which units nobody has taken yet, and only that: whoever changes it from what he
// read has taken them, whatever happened in between. What the units mean is known before the team
// starts, so that nothing has to be ordered behind it.
WorkShares::Portion WorkShares::Take(int mine) {
  std::atomic<uint64_t>& left = left_of_[static_cast<size_t>(mine)].left;
  do {
    uint64_t now = left.load(std::memory_order_relaxed);
    while (SizeOf(now) > 0) {
      const uint64_t first = FirstOf(now), end = first + HalfOf(now);
      if (left.compare_exchange_weak(now, Pack(end, EndOf(now)), std::memory_order_relaxed)) {
        return Items(first, end);
      }
    }
  } while (TakeOver(mine));
  return {};
}

bool WorkShares::TakeOver(int mine) {
  for (;;) {
    int richest = -1;
    uint64_t most = 0;
    for (int i = 0; i < shares_; ++i) {
      const uint64_t left = left_of_[static_cast<size_t>(i)].left.load(std::memory_order_relaxed);
      if (SizeOf(left) > SizeOf(most)) {
        richest = i;
        most = left;
      }
    }
    if (richest < 0) return false;
    const uint64_t end = EndOf(most), from = end - HalfOf(most);
    if (left_of_[static_cast<size_t>(richest)].left.compare_exchange_strong(
            most, Pack(FirstOf(most), from), std::memory_order_relaxed)) {
      // Nobody else changes a share that is empty.
      left_of_[static_cast<size_t>(mine)].left.store(Pack(from, end), std::memory_order_relaxed);
      return true;
    }
  }
}

WorkShares::Portion WorkShares::Items(uint64_t first, uint64_t end) const {
  return {static_cast<int64_t>(first) * least_,
          std::min(count_, static_cast<int64_t>(end) * least_)};
}

}  // namespace oort
