// SPDX-License-Identifier: MIT
// How a rank waits for others: not long as a rule, so it spins first; but never forever.
#pragma once

#include <chrono>
#include <thread>

namespace oort {

class Patience {
 public:
  explicit Patience(double deadline) : deadline_(deadline) {}

  /// Called again and again; false once the deadline is over.
  bool Wait() {
    if (++turns_ % kTurns != 0) {
      Relax();
      return true;
    }
    const Clock::time_point now = Clock::now();
    if (turns_ == kTurns) start_ = now;
    const double waited = std::chrono::duration<double>(now - start_).count();
    if (waited > deadline_) return false;
    if (waited > kAwake) {
      // Nobody is expected soon: a follower between two requests.
      std::this_thread::sleep_for(std::chrono::microseconds(waited > kDrowsy ? 500 : 50));
    } else if (waited > kSpin) {
      std::this_thread::yield();
    }
    return true;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr unsigned kTurns = 64;  // between two looks at the clock
  static constexpr double kSpin = 50e-6, kAwake = 5e-3, kDrowsy = 50e-3;

  static void Relax() {
#if defined(__aarch64__)
    asm volatile("isb" ::: "memory");
#elif defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }

  double deadline_;
  unsigned turns_ = 0;
  Clock::time_point start_;
};

}  // namespace oort
