// SPDX-License-Identifier: MIT
#include "core/own_threads.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <new>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "core/cpu_limits.h"
#include "core/waiting.h"

namespace oort {
namespace {

thread_local bool t_in_region = false;
/// The threads of this one are gone: it is about to end, and objects that outlive them run alone.
thread_local bool t_ended = false;

/// Counts the forks that this process is the child of.
std::atomic<uint32_t> forks = 0;

/// Of a thread of a team. The caller calls it, and whoever changes kCalled has the part.
enum State : uint32_t {
  kIdle,
  kCalled,
  kRunning,
  kAwaited,  // it runs, and the caller sleeps until it is done
  kEnding,
};

}  // namespace

class OwnThreads::Team {
 public:
  uint32_t born() const { return born_; }
  ~Team();
  void Run(int parts, FunctionRef<void(int)> body);
  bool AreAwake(int threads) const;

 private:
  /// A line of the cache for each, so that a thread that waits is not touched by others.
  struct alignas(64) Member {
    std::atomic<uint32_t> state{kIdle};
    int number = 0;
    Member* next = nullptr;  // changed only while no region runs
    std::thread thread;

    /// Takes the part of one that has not come yet.
    bool TakeOver() {
      uint32_t called = kCalled;
      return state.load(std::memory_order_relaxed) == kCalled &&
             state.compare_exchange_strong(called, kIdle, std::memory_order_acq_rel);
    }
  };

  int Grow(int parts);
  void Work(Member& me);
  bool AwaitCall(Member& me, Waiter& waiter);
  void Sleep(Member& me);
  void Help(const Member& me);
  void Await(Member& member);
  std::atomic<uint8_t>& AsleepFlag(const Member& member) {
    return asleep_[static_cast<size_t>(member.number)];
  }
  /// Whether it slept; then nobody else wakes it.
  bool TakeAsleep(const Member& member);

  const uint32_t born_ = forks.load();
  std::vector<std::unique_ptr<Member>> members_;  // 1, 2, …
  Waiter waiter_;                                 // of the caller
  // What is read by all in a region, and nobody looks at while it is written.
  alignas(64) std::optional<FunctionRef<void(int)>> body_;
  int parts_ = 0;
  // Who sleeps, apart from what changes with each region.
  alignas(64) std::atomic<int> sleeping_{0};
  std::array<std::atomic<uint8_t>, kMostThreads> asleep_{};
};

OwnThreads::Team::~Team() {
  for (const auto& member : members_) {
    member->state.store(kEnding, std::memory_order_release);
    WakeSleeper(member->state);
  }
  for (const auto& member : members_) member->thread.join();
}

/// Starts threads for so many parts as there can be; returns for how many there are threads.
int OwnThreads::Team::Grow(int parts) {
  while (static_cast<int>(members_.size()) + 1 < std::min(parts, kMostThreads)) {
    try {
      auto member = std::make_unique<Member>();
      members_.reserve(members_.size() + 1);
      member->number = static_cast<int>(members_.size()) + 1;
      member->thread = std::thread([this, me = member.get()] { Work(*me); });
      if (!members_.empty()) members_.back()->next = member.get();
      members_.push_back(std::move(member));
    } catch (const std::exception&) {  // no more threads, or no memory: others do the rest
      break;
    }
  }
  return static_cast<int>(members_.size()) + 1;
}

void OwnThreads::Team::Work(Member& me) {
  t_in_region = true;
  Waiter waiter;
  while (AwaitCall(me, waiter)) {
    (*body_)(me.number);
    Help(me);
    if (me.state.exchange(kIdle, std::memory_order_acq_rel) == kAwaited) WakeSleeper(me.state);
  }
}

/// Waits until there is a part for this thread; false at the end.
bool OwnThreads::Team::AwaitCall(Member& me, Waiter& waiter) {
  for (;;) {
    uint32_t seen = waiter.Await(me.state, kIdle);
    if (seen == kIdle) {
      Sleep(me);
    } else if (seen == kEnding) {
      return false;
    } else if (me.state.compare_exchange_strong(seen, kRunning, std::memory_order_acq_rel)) {
      return true;
    }
  }
}

// A caller that looks before the flag is set does not wake this thread, and does its part: it sees
// the flag the next time. So no store has to wait for a load here, nor there.
void OwnThreads::Team::Sleep(Member& me) {
  AsleepFlag(me).store(1, std::memory_order_relaxed);
  sleeping_.fetch_add(1, std::memory_order_relaxed);
  SleepWhile(me.state, kIdle);
  TakeAsleep(me);
}

bool OwnThreads::Team::TakeAsleep(const Member& member) {
  std::atomic<uint8_t>& flag = AsleepFlag(member);
  if (flag.load(std::memory_order_relaxed) == 0) return false;
  if (flag.exchange(0, std::memory_order_relaxed) == 0) return false;
  sleeping_.fetch_sub(1, std::memory_order_relaxed);
  return true;
}

/// Does the parts of the next two where they have not come, and so on behind these. The caller
/// looks after all; but where many are missing, it would be alone with their parts.
void OwnThreads::Team::Help(const Member& me) {
  constexpr int kNeighbours = 2;
  int looked = 0;
  for (Member* other = me.next; other != nullptr && other->number < parts_ && looked < kNeighbours;
       other = other->next, ++looked) {
    if (!other->TakeOver()) continue;
    (*body_)(other->number);
    looked = -1;
  }
}

/// Waits for one that has begun.
void OwnThreads::Team::Await(Member& member) {
  if (member.state.load(std::memory_order_acquire) != kRunning) return;
  uint32_t seen = waiter_.Await(member.state, kRunning);
  if (seen != kRunning) return;
  if (!member.state.compare_exchange_strong(seen, kAwaited, std::memory_order_acquire)) return;
  do {
    SleepWhile(member.state, kAwaited);
  } while (member.state.load(std::memory_order_acquire) == kAwaited);
}

void OwnThreads::Team::Run(int parts, FunctionRef<void(int)> body) {
  const int threads = std::min(parts, Grow(parts));
  body_ = body;
  parts_ = threads;
  const auto called = [this](int i) -> Member& { return *members_[static_cast<size_t>(i) - 1]; };
  // Nobody else writes the state of one that is idle: a plain store, for which nobody waits.
  for (int i = 1; i < threads; ++i) called(i).state.store(kCalled, std::memory_order_release);
  if (sleeping_.load(std::memory_order_relaxed) > 0) {
    for (int i = 1; i < threads; ++i) {
      if (TakeAsleep(called(i))) WakeSleeper(called(i).state);
    }
  }
  body(0);
  for (int i = threads; i < parts; ++i) body(i);
  for (int i = 1; i < threads; ++i) {
    if (called(i).TakeOver()) body(i);
  }
  for (int i = 1; i < threads; ++i) Await(called(i));
}

bool OwnThreads::Team::AreAwake(int threads) const {
  if (static_cast<int>(members_.size()) + 1 < threads) return false;
  if (sleeping_.load(std::memory_order_relaxed) == 0) return true;
  for (int i = 1; i < threads; ++i) {
    if (asleep_[static_cast<size_t>(i)].load(std::memory_order_relaxed) != 0) return false;
  }
  return true;
}

OwnThreads::OwnThreads() {
  [[maybe_unused]] static const int registered =
      pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1); });
}

OwnThreads::~OwnThreads() {
  // Threads of the process before a fork cannot be waited for.
  if (team_ != nullptr && team_->born() != forks.load()) static_cast<void>(team_.release());
}

bool OwnThreads::AreAwake(int threads) const {
  return team_ != nullptr && team_->AreAwake(threads);
}

void OwnThreads::Run(int parts, FunctionRef<void(int)> body) {
  const bool before = std::exchange(t_in_region, true);
  if (team_ != nullptr && team_->born() != forks.load(std::memory_order_relaxed)) {
    static_cast<void>(team_.release());
  }
  if (parts > 1 && !before && team_ == nullptr) team_.reset(new (std::nothrow) Team);
  if (parts <= 1 || before || team_ == nullptr) {
    for (int i = 0; i < parts; ++i) body(i);
  } else {
    team_->Run(parts, body);
  }
  t_in_region = before;
}

bool OwnThreads::InRegion() { return t_in_region; }

namespace {

/// Ends the threads with the thread that called them.
struct MyThreads {
  OwnThreads threads;
  ~MyThreads() { t_ended = true; }
  static OwnThreads& Get() {
    thread_local MyThreads mine;
    return mine.threads;
  }
};

}  // namespace

void OwnThreads::RunMine(int parts, FunctionRef<void(int)> body) {
  if (t_ended) {
    for (int i = 0; i < parts; ++i) body(i);
  } else {
    MyThreads::Get().Run(parts, body);
  }
}

bool OwnThreads::MineAreAwake(int threads) {
  return !t_ended && MyThreads::Get().AreAwake(threads);
}

}  // namespace oort
