// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <mutex>

namespace oort {

/// Shares the processors out among everybody who runs at the same time, so that two models at once
/// do not start twice as many threads as there are processors. Each may take up to cap() threads:
/// the largest number with which all of them together fit. Who runs alone is not limited, so a
/// caller who asks for more threads than there are processors gets them.
/// Thread contract: any thread at any time.
class ThreadBudget {
 public:
  static constexpr int kUnlimited = std::numeric_limits<int>::max();

  explicit ThreadBudget(int processors) : processors_(processors) {}
  /// Of the whole process.
  static ThreadBudget& Global();

  /// Somebody begins, or ends, to run on up to `threads` threads.
  void Enter(int threads) { Change(threads, 1); }
  void Leave(int threads) { Change(threads, -1); }
  /// For those who run at this moment.
  int cap() const { return cap_.load(std::memory_order_relaxed); }

  /// Somebody who ran will not come back.
  void Depart() { departures_.fetch_add(1, std::memory_order_relaxed); }
  uint32_t departures() const { return departures_.load(std::memory_order_relaxed); }

 private:
  static constexpr int kMost = 1024;  // who asks for more counts as that many

  void Change(int threads, int sign);
  int NeededCap() const;

  const int processors_;
  std::atomic<int> cap_{kUnlimited};
  std::atomic<uint32_t> departures_{0};
  std::mutex mutex_;
  std::array<int, kMost + 1> wanting_{};  // how many run with so many threads
  int running_ = 0, total_ = 0;
};

/// The part of the budget of one who runs again and again, as a Session does. A team of threads
/// that changes its size is expensive (libgomp ends threads and starts them again), and whoever ran
/// beside this one is between two runs half of the time when one looks. So the share falls at once,
/// but rises only
/// - for the next run, where nobody was beside the last one, or somebody has ended for good since;
/// - within a run, where nobody has been beside it for kPatience.
/// Thread contract: one thread at a time.
class ThreadShare {
 public:
  using Clock = std::chrono::steady_clock;
  using Now = Clock::time_point (*)();
  /// Twenty times what it takes to start a large team.
  static constexpr Clock::duration kPatience = std::chrono::milliseconds(20);

  explicit ThreadShare(ThreadBudget& budget = ThreadBudget::Global(), Now now = &Clock::now)
      : budget_(&budget), now_(now) {}
  ~ThreadShare();
  ThreadShare(const ThreadShare&) = delete;
  ThreadShare& operator=(const ThreadShare&) = delete;

  /// A run on up to `threads` threads begins, or ends.
  void Enter(int threads);
  void Leave(int threads);
  /// Most threads that the run may take now.
  int Cap();

 private:
  void SetCap(int cap);

  ThreadBudget* budget_;
  Now now_;
  int cap_ = ThreadBudget::kUnlimited;
  int lowest_ =
      ThreadBudget::kUnlimited;  // that the budget allowed while this run, or the last, ran
  uint32_t departures_ = 0;      // when the last run ended
  bool has_run_ = false, may_rise_ = false;
  Clock::time_point could_rise_since_{};
};

}  // namespace oort
