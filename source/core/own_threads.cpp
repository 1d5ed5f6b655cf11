// SPDX-License-Identifier: MIT
#include "core/own_threads.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

namespace oort {
namespace {

using Clock = std::chrono::steady_clock;

// About 50 microseconds, as in spin_team.cpp.
constexpr int kSpinTurns = 10000;
/// Then others may pass, until so long after the last region: loops come in quick succession.
constexpr Clock::duration kYields = std::chrono::microseconds(500);

thread_local bool t_in_region = false;

/// Counts the forks that this process is the child of.
std::atomic<uint32_t> forks = 0;

void Pause() {
#if defined(__aarch64__)
  asm volatile("yield");
#elif defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/// Waits until the value is another than `seen`.
void AwaitChange(const std::atomic<uint32_t>& value, uint32_t seen) {
  for (int turn = 0; turn < kSpinTurns; ++turn) {
    if (value.load(std::memory_order_acquire) != seen) return;
    Pause();
  }
  const Clock::time_point until = Clock::now() + kYields;
  while (value.load(std::memory_order_acquire) == seen) {
    if (Clock::now() >= until) {
      value.wait(seen, std::memory_order_acquire);
      return;
    }
    std::this_thread::yield();
  }
}

}  // namespace

struct OwnThreads::Team {
  /// A line of the cache for each, so that a thread that sleeps on is not touched.
  struct alignas(64) Member {
    std::atomic<uint32_t> turn{0};
    std::thread thread;
  };

  uint32_t born = forks.load();
  bool ending = false;
  int threads = 1;
  std::optional<FunctionRef<void(int, int)>> body;
  alignas(64) std::atomic<uint32_t> busy{0};
  std::deque<Member> members;  // 1, 2, …; never moved

  ~Team() {
    ending = true;
    for (Member& member : members) Call(member);
    for (Member& member : members) member.thread.join();
  }

  static void Call(Member& member) {
    member.turn.fetch_add(1, std::memory_order_release);
    member.turn.notify_one();
  }

  /// So many threads as there can be, up to `wanted`.
  int Grow(int wanted) {
    while (static_cast<int>(members.size()) + 1 < wanted) {
      Member& member = members.emplace_back();
      const int number = static_cast<int>(members.size());
      try {
        member.thread = std::thread([this, &member, number] { Work(member, number); });
      } catch (const std::system_error&) {
        members.pop_back();
        break;
      }
    }
    return std::min(wanted, static_cast<int>(members.size()) + 1);
  }

  void Work(Member& member, int number) {
    t_in_region = true;
    for (uint32_t seen = 0;; ++seen) {
      AwaitChange(member.turn, seen);
      if (ending) return;
      (*body)(number, threads);
      if (busy.fetch_sub(1, std::memory_order_acq_rel) == 1) busy.notify_one();
    }
  }

  void Run(int wanted, FunctionRef<void(int, int)> work) {
    threads = Grow(wanted);
    body = work;
    busy.store(static_cast<uint32_t>(threads - 1), std::memory_order_relaxed);
    for (int i = 0; i + 1 < threads; ++i) Call(members[static_cast<size_t>(i)]);
    work(0, threads);
    for (uint32_t left = busy.load(std::memory_order_acquire); left != 0;
         left = busy.load(std::memory_order_acquire)) {
      AwaitChange(busy, left);
    }
  }
};

OwnThreads::OwnThreads() : team_(std::make_unique<Team>()) {
  [[maybe_unused]] static const int registered =
      pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1); });
}

OwnThreads::~OwnThreads() {
  // Threads of the process before a fork cannot be waited for.
  if (team_->born != forks.load()) static_cast<void>(team_.release());
}

OwnThreads& OwnThreads::Mine() {
  thread_local OwnThreads mine;
  return mine;
}

bool OwnThreads::InRegion() { return t_in_region; }

void OwnThreads::Run(int threads, FunctionRef<void(int, int)> body) {
  if (team_->born != forks.load(std::memory_order_relaxed)) {
    static_cast<void>(team_.release());
    team_ = std::make_unique<Team>();
  }
  const bool before = std::exchange(t_in_region, true);
  if (threads <= 1 || before) {
    body(0, 1);
  } else {
    team_->Run(threads, body);
  }
  t_in_region = before;
}

}  // namespace oort
