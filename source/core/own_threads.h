// SPDX-License-Identifier: MIT
// The threads that loops run on. They are our own and no OpenMP runtime's, so that another one in
// the process, as torch brings it, does not keep threads that spin against ours. Only for
// parallel.cpp.
#pragma once

#include <memory>

#include "oort/function_ref.h"

namespace oort {

/// The threads of one caller, started when they are needed and kept for the next time. Nobody waits
/// for a thread that has not come: its part is done by others, so that the caller can always finish
/// alone, however busy the machine is. Between regions threads spin for microseconds, then let
/// others pass, and sleep after half a millisecond, or at once where others want their processor.
/// In the child of a fork, which has none of them, new ones are started. Thread contract: each
/// caller has its own.
class OwnThreads {
 public:
  /// Runs on the threads of the thread that calls.
  static void RunMine(int parts, FunctionRef<void(int part)> body);
  /// Whether this thread is in a region, its caller's or its own.
  static bool InRegion();
  /// Whether the threads [1, threads) of the thread that calls are there and do not sleep.
  static bool MineAreAwake(int threads);

  OwnThreads();
  ~OwnThreads();
  OwnThreads(const OwnThreads&) = delete;
  OwnThreads& operator=(const OwnThreads&) = delete;

  /// Runs body(i) once for each i in [0, parts), 0 here and each other on the thread with its
  /// number, or on another one where that does not come in time. The body does not throw.
  void Run(int parts, FunctionRef<void(int part)> body);
  bool AreAwake(int threads) const;

 private:
  class Team;
  std::unique_ptr<Team> team_;  // none before the first region of several parts
};

}  // namespace oort
