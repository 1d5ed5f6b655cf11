// SPDX-License-Identifier: MIT
#include "core/spin_team.h"

#include <thread>

namespace oort {
namespace {

// Turns of a wait before it lets others pass: about 50 microseconds, longer than any loop waits for
// its fellow unless that one has lost its processor.
constexpr int kTurns = 10000;

/// Waits until done() holds.
template <typename Done>
void SpinUntil(const Done& done) {
  for (int turn = 0; !done(); ++turn) {
    if (turn < kTurns) {
#if defined(__aarch64__)
      asm volatile("yield");
#elif defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    } else {
      std::this_thread::yield();
    }
  }
}

}  // namespace

// Threads that are not called keep the turn of their last call, so each counts its own.
void SpinTeam::Call(int threads) {
  for (int i = 1; i < threads; ++i) {
    std::atomic<uint32_t>& turn = places_[static_cast<size_t>(i)].turn;
    // Nobody else writes it: a plain store, for which this thread need not wait.
    turn.store(turn.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
}

void SpinTeam::Run(int threads, FunctionRef<void(int)> body) {
  body_ = body;
  busy_.store(threads - 1, std::memory_order_relaxed);
  Call(threads);
  body(0);
  SpinUntil([&] { return busy_.load(std::memory_order_acquire) == 0; });
}

void SpinTeam::End() {
  body_.reset();
  Call(size_);
}

void SpinTeam::Wait(int thread) {
  if (thread >= kMost) return;  // to the end of the region
  std::atomic<uint32_t>& turn = places_[static_cast<size_t>(thread)].turn;
  for (uint32_t seen = 0;;) {
    SpinUntil([&] { return turn.load(std::memory_order_acquire) != seen; });
    ++seen;
    if (!body_) return;
    (*body_)(thread);
    busy_.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace oort
