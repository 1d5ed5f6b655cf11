// SPDX-License-Identifier: MIT
#pragma once

#include <csignal>

namespace oort::cli {

/// While it lives, Ctrl-C is only noted, so that long work ends in an orderly way and leaves no
/// half file behind.
class InterruptGuard {
 public:
  InterruptGuard() : before_(std::signal(SIGINT, [](int) { noted_ = 1; })) {}
  ~InterruptGuard() { std::signal(SIGINT, before_); }
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  static bool interrupted() { return noted_ != 0; }

 private:
  inline static volatile std::sig_atomic_t noted_ = 0;
  void (*before_)(int);
};

}  // namespace oort::cli
