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

void SpinTeam::Call(int thread, const std::optional<FunctionRef<void(int)>>& body) {
  Place& place = places_[static_cast<size_t>(thread)];
  place.body = body;
  place.turn.fetch_add(1, std::memory_order_release);
}

void SpinTeam::Run(int threads, FunctionRef<void(int)> body) {
  busy_.store(threads - 1, std::memory_order_relaxed);
  for (int i = 1; i < threads; ++i) Call(i, body);
  body(0);
  SpinUntil([&] { return busy_.load(std::memory_order_acquire) == 0; });
}

void SpinTeam::End() {
  for (int i = 1; i < size_; ++i) Call(i, std::nullopt);
}

void SpinTeam::Wait(int thread) {
  if (thread >= kMost) return;  // to the end of the region
  Place& place = places_[static_cast<size_t>(thread)];
  for (uint32_t seen = 0;;) {
    SpinUntil([&] { return place.turn.load(std::memory_order_acquire) != seen; });
    ++seen;
    if (!place.body) return;
    (*place.body)(thread);
    busy_.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace oort
