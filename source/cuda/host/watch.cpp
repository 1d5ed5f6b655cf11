// SPDX-License-Identifier: MIT
#include "cuda/host/watch.h"

#include <chrono>
#include <thread>

namespace oort::cuda {
namespace {

thread_local Watch* current_watch = nullptr;

}  // namespace

WatchScope::WatchScope(Watch* watch) : before_(current_watch) { current_watch = watch; }
WatchScope::~WatchScope() { current_watch = before_; }
Watch* WatchScope::Current() { return current_watch; }

void WaitWatched(Watch& watch, FunctionRef<bool()> done) {
  using Clock = std::chrono::steady_clock;
  constexpr double kLook = 1e-3, kSpin = 20e-3;  // a step is over by then
  if (done()) return;
  const Clock::time_point start = Clock::now();
  double next = kLook;
  while (!done()) {
    const double waited = std::chrono::duration<double>(Clock::now() - start).count();
    if (waited > kSpin) std::this_thread::sleep_for(std::chrono::microseconds(50));
    if (waited < next) continue;
    next = waited + kLook;
    watch.Look(waited);
  }
}

}  // namespace oort::cuda
