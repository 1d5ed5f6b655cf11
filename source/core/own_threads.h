// SPDX-License-Identifier: MIT
// Teams of threads without OpenMP, for programs that have an OpenMP runtime of somebody else's in
// their process, as Python with torch has: two of them would each keep threads that spin. Only for
// parallel.cpp.
#pragma once

#include <memory>

#include "oort/function_ref.h"

namespace oort {

/// The threads of one caller, started when they are needed and kept for the next time. Between
/// regions they spin for a moment, then let others pass, and sleep after half a millisecond. In the
/// child of a fork, which has none of them, new ones are started. Thread contract: each caller has
/// its own.
class OwnThreads {
 public:
  /// Of the thread that calls.
  static OwnThreads& Mine();
  /// Whether this thread is in a region, its caller's or its own.
  static bool InRegion();

  OwnThreads();
  ~OwnThreads();
  OwnThreads(const OwnThreads&) = delete;
  OwnThreads& operator=(const OwnThreads&) = delete;

  /// Runs body(thread, threads) on `threads` threads, of which 0 is here; on fewer where the system
  /// refuses more. The body does not throw.
  void Run(int threads, FunctionRef<void(int thread, int threads)> body);

 private:
  struct Team;
  std::unique_ptr<Team> team_;
};

}  // namespace oort
