// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <limits>
#include <mutex>

namespace oort {

/// Shares the processors out among everybody who runs at the same time, so that two models at once
/// do not start twice as many threads as there are processors. Each may take up to cap() threads:
/// the largest number with which all of them together fit. Who runs alone is not limited, so a
/// caller who asks for more threads than there are processors gets them.
/// A cap falls at once, but rises only after kPatience without the need for it: a team of threads
/// that changes its size is expensive. Thread contract: any thread at any time.
class ThreadBudget {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr int kUnlimited = std::numeric_limits<int>::max();
  static constexpr Clock::duration kPatience = std::chrono::milliseconds(100);

  explicit ThreadBudget(int processors) : processors_(processors) {}
  /// Of the whole process.
  static ThreadBudget& Global();

  /// Somebody begins, or ends, to run on up to `threads` threads.
  void Enter(int threads, Clock::time_point now) { Change(threads, 1, now); }
  void Leave(int threads, Clock::time_point now) { Change(threads, -1, now); }
  int cap() const { return cap_.load(std::memory_order_relaxed); }

 private:
  static constexpr int kMost = 1024;  // who asks for more counts as that many

  void Change(int threads, int sign, Clock::time_point now);
  int NeededCap() const;

  const int processors_;
  std::atomic<int> cap_{kUnlimited};
  std::mutex mutex_;
  std::array<int, kMost + 1> wanting_{};  // how many run with so many threads
  int running_ = 0, total_ = 0;
  int needed_ = kUnlimited;  // by those who run now
  // The smallest need of the present window of time and of the one before it.
  Clock::time_point window_{};
  int lowest_ = kUnlimited, lowest_before_ = kUnlimited;
};

}  // namespace oort
