// SPDX-License-Identifier: MIT
#include "core/waiting.h"

#ifdef __linux__
#include <linux/futex.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <cinttypes>
#include <cstdio>
#include <thread>

namespace oort {
namespace {

using namespace std::chrono_literals;

/// A first look without a clock: most waits are over within a microsecond.
constexpr int kFirstTurns = 100;
/// Then it is time to ask whether others want the processor, which takes a system call.
constexpr auto kAsksAfter = 10us;
/// Threads that nobody disturbs spin so long: longer than any loop waits for its fellow unless that
/// one has lost its processor.
constexpr auto kSpins = 50us;
/// Then others may pass, until so long after the last region: loops come in quick succession.
constexpr auto kYields = 500us;
/// A yield takes a microsecond, unless somebody else ran.
constexpr auto kSomebodyRan = 100us;
/// A thread has neighbours that compute where it waited for its processor in more than a quarter of
/// a time between these bounds. One neighbour takes a half, small work of the system's own much
/// less.
constexpr auto kLeastWindow = 20ms, kMostWindow = 200ms;
constexpr int kPartOfWindow = 4;
/// For so long it is then taken to have them.
constexpr auto kRemembers = 100ms;

void Pause() {
#if defined(__aarch64__)
  asm volatile("yield");
#elif defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/// How often the system took the processor from this thread.
long TakenAway() {
#ifdef __linux__
  rusage usage{};
  if (getrusage(RUSAGE_THREAD, &usage) == 0) return usage.ru_nivcsw;
#endif
  return 0;
}

/// How long this thread could have run, but others did.
std::chrono::nanoseconds RunDelay() {
  int64_t ran = 0, waited = 0;
#ifdef __linux__
  if (std::FILE* file = std::fopen("/proc/thread-self/schedstat", "re")) {
    if (std::fscanf(file, "%" SCNd64 " %" SCNd64, &ran, &waited) != 2) waited = 0;
    static_cast<void>(std::fclose(file));
  }
#endif
  return std::chrono::nanoseconds(waited);
}

}  // namespace

Waiter::Waiter() : switches_(TakenAway()) {}

// What happens while it sleeps early tells nothing: then its own fellows, when they are woken, may
// take its processor. So after kRemembers it begins anew.
bool Waiter::HasNeighbours(Clock::time_point now) {
  if (now < neighbours_until_) return true;
  const long switches = TakenAway();
  if (switches == switches_) return false;
  const Clock::duration window = now - window_start_;
  if (window < kLeastWindow) return false;
  const std::chrono::nanoseconds delay = RunDelay(), waited = delay - delay_;
  switches_ = switches;
  delay_ = delay;
  window_start_ = now;
  if (window > kMostWindow || waited * kPartOfWindow < window) {
    return false;
  }
  neighbours_until_ = now + kRemembers;
  return true;
}

uint32_t Waiter::Spin(const std::atomic<uint32_t>& value, uint32_t seen,
                      Clock::time_point until) const {
  constexpr int kTurnsOfLook = 16;
  do {
    for (int turn = 0; turn < kTurnsOfLook; ++turn) {
      const uint32_t now = value.load(std::memory_order_acquire);
      if (now != seen) return now;
      Pause();
    }
  } while (Clock::now() < until);
  return seen;
}

uint32_t Waiter::Await(const std::atomic<uint32_t>& value, uint32_t seen) {
  for (int turn = 0; turn < kFirstTurns; ++turn) {
    const uint32_t now = value.load(std::memory_order_acquire);
    if (now != seen) return now;
    Pause();
  }
  const Clock::time_point start = Clock::now();
  uint32_t now = Spin(value, seen, start + kAsksAfter);
  if (now != seen || HasNeighbours(start)) return now;
  now = Spin(value, seen, start + kSpins);
  for (Clock::time_point before = Clock::now(); now == seen && before < start + kYields;) {
    std::this_thread::yield();
    now = value.load(std::memory_order_acquire);
    const Clock::time_point after = Clock::now();
    if (after - before > kSomebodyRan) break;
    before = after;
  }
  return now;
}

void SleepWhile(std::atomic<uint32_t>& value, uint32_t seen) {
#ifdef __linux__
  static_assert(sizeof(value) == sizeof(uint32_t));
  syscall(SYS_futex, &value, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
#else
  value.wait(seen, std::memory_order_acquire);
#endif
}

void WakeSleeper(std::atomic<uint32_t>& value) {
#ifdef __linux__
  syscall(SYS_futex, &value, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
#else
  value.notify_all();
#endif
}

}  // namespace oort
