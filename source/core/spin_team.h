// SPDX-License-Identifier: MIT
// Threads that wait for loops without sleeping. Only for parallel.cpp.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "oort/function_ref.h"

namespace oort {

/// One thread, number 0, leads; the others wait for what it has for them. They must all be there
/// already (in one parallel region). Between loops they spin, and let other threads of the system
/// pass once that has taken long.
class SpinTeam {
 public:
  static constexpr int kMost = 64;

  /// The leader says how many they are, itself included; beyond kMost they only wait.
  void Begin(int size) { size_ = size < kMost ? size : kMost; }
  int size() const { return size_; }
  /// Runs body(i) for i in [0, threads) on so many threads, at most size(); 0 is here. The body
  /// does not throw.
  void Run(int threads, FunctionRef<void(int thread)> body);
  /// The others may go.
  void End();
  /// Of any other thread: takes part until End.
  void Wait(int thread);

 private:
  /// A line of the cache for each, so that the threads do not wake each other; what they are to do
  /// stands in another one, which nobody looks at while it is written.
  struct alignas(64) Place {
    std::atomic<uint32_t> turn{0};
  };

  /// Calls the threads [1, threads).
  void Call(int threads);

  int size_ = 1;
  alignas(64) std::optional<FunctionRef<void(int thread)>> body_;  // none at the end
  alignas(64) std::atomic<int> busy_{0};
  std::array<Place, kMost> places_;
};

}  // namespace oort
