// SPDX-License-Identifier: MIT
#include "core/thread_budget.h"

#include <algorithm>

#include "core/cpu_limits.h"

namespace oort {

ThreadBudget& ThreadBudget::Global() {
  static ThreadBudget budget(AvailableThreads());
  return budget;
}

void ThreadBudget::Change(int threads, int sign, Clock::time_point now) {
  const int wanted = std::clamp(threads, 1, kMost);
  const std::lock_guard lock(mutex_);
  const int until_now = needed_;
  wanting_[static_cast<size_t>(wanted)] += sign;
  running_ += sign;
  total_ += sign * wanted;
  needed_ = NeededCap();
  if (now - window_ >= kPatience) {
    // What was in force up to this moment counts as just seen, however long ago it was entered.
    const bool recent = now - window_ < 2 * kPatience;
    lowest_before_ = recent ? std::min(lowest_, until_now) : until_now;
    lowest_ = needed_;
    window_ = now;
  }
  lowest_ = std::min(lowest_, needed_);
  cap_.store(std::min(lowest_before_, lowest_), std::memory_order_relaxed);
}

int ThreadBudget::NeededCap() const {
  if (running_ <= 1 || total_ <= processors_) return kUnlimited;
  int cap = 1, used = running_, above = running_;
  while (cap < kMost) {
    above -= wanting_[static_cast<size_t>(cap)];  // those who want more than `cap`
    if (used + above > processors_) break;
    used += above;
    ++cap;
  }
  return cap;
}

}  // namespace oort
