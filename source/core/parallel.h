// SPDX-License-Identifier: MIT
// Loops over several threads with a cost model that keeps small ones on one. The threads are our
// own (own_threads.h), or OpenMP's where the build says so.
//
// The unit of cost is the grain: as many items as make up about kGrainNanoseconds of work on one
// thread. A loop of so many grains is cut so that it ends soonest, counting what it costs to wake
// the threads and to wait for them; that is much more where they have gone to sleep.
// A loop inside the body of another, or inside a parallel region of the caller's, runs on the
// thread that it is on. Loops of several sessions at once share the processors (ThreadBudget).
#pragma once

#include <algorithm>
#include <cstdint>
#include <stop_token>

#include "core/cpu_limits.h"
#include "core/thread_budget.h"
#include "oort/function_ref.h"

namespace oort {

inline constexpr double kGrainNanoseconds = 2000;

/// What one item of a loop costs.
struct ItemCost {
  double bytes = 0;  ///< read and written
  double flops = 0;  ///< simple vector arithmetic; a division or a function counts about ten
};
/// Items that make up a grain, by what the machine moves and computes on one thread (machine.h).
int64_t GrainOf(const ItemCost& item);

/// Whoever runs loops on up to `threads` threads for a while, as a Forward does, holds one: it
/// takes part in the ThreadBudget, and with OpenMP all its loops use one team of threads, whatever
/// their own size: libgomp ends the threads that a smaller team leaves over and starts them again
/// for a larger one.
class ThreadLease {
 public:
  /// Of work that is done once.
  explicit ThreadLease(int threads) : ThreadLease(threads, own_share_) {}
  /// Of one who comes again, and keeps `share` from run to run.
  ThreadLease(int threads, ThreadShare& share);
  ~ThreadLease();
  ThreadLease(const ThreadLease&) = delete;
  ThreadLease& operator=(const ThreadLease&) = delete;

 private:
  ThreadShare own_share_;
  ThreadShare& share_;
  int threads_;
  int team_before_;
  ThreadShare* share_before_;
};

/// While it lives, a request to stop ends the loops of this thread: they leave out what they have
/// not done yet and throw kCancelled.
class StopScope {
 public:
  explicit StopScope(const std::stop_token& stop);
  ~StopScope();
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;

 private:
  const std::stop_token* before_;
};

/// For bodies that take long, a few times a millisecond: whether nobody wants the result any more.
/// A body that returns then is all right, on any thread of a team: the loop throws kCancelled.
bool IsCancelled();

/// Runs `body` here. Where the last one had many loops (`loops`, which is set anew), a team of up
/// to `threads` threads stays awake until it returns: a loop then starts and ends in a fraction of
/// a microsecond.
void RunAwake(int threads, int64_t& loops, FunctionRef<void()> body);

/// Of a loop that whoever cut it into pieces has found worth several threads, asleep or not.
inline constexpr double kManyGrains = 1e9;

/// In how many pieces a loop of `grains` ends soonest on a team of `threads`; `warm`: the threads
/// ran a moment ago.
int ChoosePieces(int threads, double grains, bool warm);

/// Runs body(begin, end) over [0, count) on at most `threads` threads, in pieces of at least
/// `grain`. With one piece it runs right here, without touching a thread. A grain of 1 says that
/// every item is worth a thread. A long loop is cut in more pieces than there are threads, and who
/// is done takes from the others: cores are not equally fast, and not always there. The first
/// exception that a body throws is rethrown once all pieces have ended.
void ParallelFor(int threads, int64_t count, int64_t grain,
                 FunctionRef<void(int64_t begin, int64_t end)> body);

/// The same for bodies with scratch memory: of pieces with the same place, below `threads`, one
/// runs at a time. `grains` is the cost of all items together.
void ParallelPlaces(int threads, int64_t count, double grains,
                    FunctionRef<void(int place, int64_t begin, int64_t end)> body);

/// Runs body(i) for i in [0, pieces), for work that must be cut in a number of pieces that was
/// decided before: those that have scratch of their own. `grains` is the cost of all together.
void ParallelPieces(int threads, int pieces, double grains, FunctionRef<void(int piece)> body);

}  // namespace oort
