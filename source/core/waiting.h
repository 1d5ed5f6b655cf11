// SPDX-License-Identifier: MIT
// How threads of a team wait for each other: awake for as long as that harms nobody, then asleep.
// Only for own_threads.cpp.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace oort {

/// Of one thread, which learns from one wait to the next whether others want its processor. Then it
/// spins for a few microseconds only: its share of the processor is better spent on work, and the
/// system gives a thread that has slept the processor sooner than one that has spun.
class Waiter {
 public:
  /// On the thread that waits.
  Waiter();
  /// Returns the value once it is another than `seen`, or `seen` where it is time to sleep.
  uint32_t Await(const std::atomic<uint32_t>& value, uint32_t seen);

 private:
  using Clock = std::chrono::steady_clock;

  uint32_t Spin(const std::atomic<uint32_t>& value, uint32_t seen, Clock::time_point until) const;
  /// Whether others want the processor of this thread.
  bool HasNeighbours(Clock::time_point now);

  long switches_;  // to others, against its will, until it last looked
  std::chrono::nanoseconds delay_{0};
  Clock::time_point window_start_{}, neighbours_until_{};
};

/// Sleeps until somebody wakes the one who waits for this, if it is `seen` now; may return early.
void SleepWhile(std::atomic<uint32_t>& value, uint32_t seen);
void WakeSleeper(std::atomic<uint32_t>& value);

}  // namespace oort
