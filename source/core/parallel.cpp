// SPDX-License-Identifier: MIT
#include "core/parallel.h"

#ifdef OORT_OPENMP
#include <omp.h>
#endif

#include <atomic>
#include <chrono>
#include <cmath>
#include <exception>
#include <mutex>
#include <utility>

#include "core/machine.h"
#include "core/own_threads.h"
#include "core/piece_observer.h"
#include "core/spin_team.h"
#include "core/work_shares.h"
#include "oort/error.h"
#include "oort/layer.h"

#if !defined(OORT_ONE_THREAD)
#define OORT_SEVERAL_THREADS
#endif

namespace oort {
namespace {

using Clock = std::chrono::steady_clock;

/// Of the lease that this thread holds.
thread_local int t_team = 0;
thread_local ThreadShare* t_share = nullptr;
/// Asked by the loops of this thread; null where nobody can stop them.
thread_local const std::stop_token* t_stop = nullptr;

/// Sets what a thread asks, and sets it back.
class StopSetter {
 public:
  explicit StopSetter(const std::stop_token* stop) : before_(std::exchange(t_stop, stop)) {}
  ~StopSetter() { t_stop = before_; }
  StopSetter(const StopSetter&) = delete;
  StopSetter& operator=(const StopSetter&) = delete;

 private:
  const std::stop_token* before_;
};

/// At the end of a loop, some of which may have been left out.
void ThrowIfCancelled() {
  if (IsCancelled()) throw Error(ErrorCode::kCancelled, "the run was cancelled");
}

#ifdef OORT_SEVERAL_THREADS

thread_local int64_t t_loops = 0;  // that were run on several threads

/// The first exception of several threads.
class Failure {
 public:
  template <typename Body>
  void Catch(Body body) {
    try {
      body();
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
    }
  }
  void Rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr failure_;
};

#ifdef OORT_OPENMP

/// libgomp's threads sleep after a millisecond or so without work.
constexpr Clock::duration kStaysWarm = std::chrono::microseconds(500);

/// A run of so many loops keeps its threads awake the next time.
constexpr int64_t kManyLoops = 16;

thread_local Clock::time_point t_last_region;
/// The team that waits for loops of this thread; null inside of one.
thread_local SpinTeam* t_awake = nullptr;

/// Runs body(thread, threads) on a team. The body does not throw.
template <typename Body>
void RunRegion(int team, const Body& body) {
#pragma omp parallel num_threads(team)
  body(omp_get_thread_num(), omp_get_num_threads());
  t_last_region = Clock::now();
}

/// The size of the team that runs now: one inside another parallel region.
int TeamSize(int threads) {
  if (threads <= 1) return 1;
  const int cap = t_share != nullptr ? t_share->Cap() : ThreadBudget::Global().cap();
  const int most = std::min(std::max(threads, t_team), cap);
  if (t_awake != nullptr) return std::min(most, t_awake->size());
  return omp_in_parallel() != 0 ? 1 : most;
}

bool IsWarm(int) { return t_awake != nullptr || Clock::now() - t_last_region < kStaysWarm; }

/// Here and below, what a team calls holds all it needs itself, no references to references: every
/// line of the cache that a thread has to get from another takes it a tenth of a microsecond.
template <typename Body>
void RunTeam(int team, int pieces, Body body) {
  Failure failure;
  const std::stop_token* const stop = t_stop;
  ++t_loops;
  if (t_awake != nullptr) {
    SpinTeam* const awake = std::exchange(t_awake, nullptr);
    awake->Run(team, [&failure, team, pieces, stop, body](int thread) {
      const StopSetter setter(stop);
      for (int i = thread; i < pieces; i += team) failure.Catch([&] { body(i); });
    });
    t_awake = awake;
    failure.Rethrow();
    return;
  }
  RunRegion(team, [&failure, pieces, stop, body](int thread, int threads) {
    const StopSetter setter(stop);
    for (int i = thread; i < pieces; i += threads) failure.Catch([&] { body(i); });
  });
  failure.Rethrow();
}

void KeepAwake(int threads, int64_t loops, FunctionRef<void()> body) {
  const int team = loops >= kManyLoops && t_awake == nullptr ? TeamSize(threads) : 1;
  if (team <= 1) return body();
  SpinTeam awake;
  Failure failure;
  RunRegion(team, [&](int thread, int size) {
    if (thread > 0) return awake.Wait(thread);
    awake.Begin(size);
    t_awake = &awake;
    failure.Catch(body);
    t_awake = nullptr;
    awake.End();
  });
  failure.Rethrow();
}

#else

/// The size of the team that runs now: one inside another parallel region.
int TeamSize(int threads) {
  if (threads <= 1 || OwnThreads::InRegion()) return 1;
  return std::min(threads, t_share != nullptr ? t_share->Cap() : ThreadBudget::Global().cap());
}

bool IsWarm(int team) { return OwnThreads::MineAreAwake(team); }

/// Here and below, what a team calls holds all it needs itself, no references to references: every
/// line of the cache that a thread has to get from another takes it a tenth of a microsecond.
template <typename Body>
void RunTeam(int team, int pieces, Body body) {
  Failure failure;
  const std::stop_token* const stop = t_stop;
  ++t_loops;
  // Whoever is done with his own takes the next one of those that there are no threads for.
  std::atomic<int> next = team;
  OwnThreads::RunMine(std::min(team, pieces), [&failure, &next, team, pieces, stop, body](int i) {
    const StopSetter setter(stop);
    failure.Catch([&] { body(i); });
    if (pieces <= team) return;
    while ((i = next.fetch_add(1, std::memory_order_relaxed)) < pieces) {
      failure.Catch([&] { body(i); });
    }
  });
  failure.Rethrow();
}

/// These stay awake by themselves for as long as nobody else wants their processors.
void KeepAwake(int, int64_t, FunctionRef<void()> body) { body(); }

#endif

#endif

thread_local PieceObserver* t_piece_observer = nullptr;

/// Runs `loop` with a function that does `piece` and tells the observer of it.
template <typename Loop, typename Piece>
void Observed(const Loop& loop, const Piece& piece) {
  struct Restorer {
    PieceObserver* observer;
    ~Restorer() { t_piece_observer = observer; }
  };
  // A loop inside a piece is part of that piece.
  const Restorer restorer{SetPieceObserver(nullptr)};
  loop([&](auto... range) {
    const auto start = PieceObserver::Clock::now();
    piece(range...);
    restorer.observer->OnPiece(start, PieceObserver::Clock::now());
  });
}

}  // namespace

PieceObserver* SetPieceObserver(PieceObserver* observer) {
  return std::exchange(t_piece_observer, observer);
}

ThreadLease::ThreadLease(int threads, ThreadShare& share)
    : share_(share),
      threads_(threads),
      team_before_(std::exchange(t_team, threads)),
      share_before_(std::exchange(t_share, &share_)) {
  share_.Enter(threads_);
}

ThreadLease::~ThreadLease() {
  share_.Leave(threads_);
  t_team = team_before_;
  t_share = share_before_;
}

StopScope::StopScope(const std::stop_token& stop)
    : before_(std::exchange(t_stop, stop.stop_possible() ? &stop : nullptr)) {}

StopScope::~StopScope() { t_stop = before_; }

bool IsCancelled() { return t_stop != nullptr && t_stop->stop_requested(); }

void RunAwake([[maybe_unused]] int threads, [[maybe_unused]] int64_t& loops,
              FunctionRef<void()> body) {
#ifdef OORT_SEVERAL_THREADS
  const int64_t loops_before = t_loops;
  KeepAwake(threads, loops, body);
  loops = t_loops - loops_before;
#else
  body();
#endif
}

int ChoosePieces(int threads, double grains, bool warm) {
  if (threads <= 1 || !(grains >= 2)) return 1;
  const Machine& machine = ThisMachine();
  const double work = grains * kGrainNanoseconds;
  const double overhead = warm ? machine.join + machine.join_thread * threads
                               : machine.wake + machine.wake_thread * threads;
  const double pieces = std::floor(std::min(static_cast<double>(threads), grains));
  return work / pieces + overhead < 0.9 * work ? static_cast<int>(pieces) : 1;
}

int64_t GrainOf(const ItemCost& item) {
  const Machine& machine = ThisMachine();
  const double nanoseconds =
      std::max({item.bytes / machine.moves, item.flops / machine.flops, 1e-3});
  return std::max<int64_t>(1, static_cast<int64_t>(kGrainNanoseconds / nanoseconds));
}

#ifdef OORT_SEVERAL_THREADS
namespace {

/// Below so many grains for each thread, 128 microseconds, every thread does its part in one go. A
/// portion's end is where reading ahead stops: with loops of 16 microseconds shared out, answers of
/// language models were 7 % slower on two threads that nobody disturbed.
constexpr double kSharedFrom = 64;
/// What is handed out at a time, so that taking it costs little.
constexpr double kPortionGrains = 2;

/// Runs body(place, begin, end) in pieces of about the same size, one for each place.
template <typename Body>
void RunEven(int team, int pieces, int64_t count, Body body) {
  RunTeam(team, pieces, [pieces, count, body](int i) {
    // Without the product of two large numbers, which could overflow.
    const int64_t size = count / pieces, rest = count % pieces;
    const int64_t begin = size * i + std::min<int64_t>(i, rest);
    body(i, begin, begin + size + (i < rest ? 1 : 0));
  });
}

/// The same in portions, so that who is done takes from the others.
template <typename Body>
void RunShared(int team, int pieces, int64_t count, int64_t least, Body body) {
  WorkShares shares(count, pieces, least);
  RunTeam(team, pieces, [&shares, body](int i) {
    for (;;) {
      const WorkShares::Portion portion = shares.Take(i);
      if (portion.empty()) return;
      body(i, portion.begin, portion.end);
    }
  });
}

}  // namespace
#endif

namespace {

/// From about a millisecond on, a loop asks within a piece whether it is still wanted.
constexpr double kAskedFrom = 500;

/// Runs body(place, begin, end) in parts, each after such a question. What an item costs may not be
/// known: parts double in size until one takes a millisecond.
template <typename Body>
void RunInParts(int place, int64_t begin, int64_t end, const Body& body) {
  constexpr int64_t kFirstPart = 64;  // of the whole
  constexpr Clock::duration kPartTime = std::chrono::milliseconds(1);
  int64_t part = std::max<int64_t>(1, (end - begin) / kFirstPart);
  Clock::time_point before = Clock::now();
  while (begin < end && !IsCancelled()) {
    const int64_t stop = begin + std::min(part, end - begin);
    body(place, begin, stop);
    begin = stop;
    const Clock::time_point now = Clock::now();
    if (now - before < kPartTime) part *= 2;
    before = now;
  }
}

/// Both kinds of loops, on as many threads as pay.
template <typename Body>
void RunPieces([[maybe_unused]] int threads, int64_t count, [[maybe_unused]] double grains,
               const Body& body) {
#ifdef OORT_SEVERAL_THREADS
  const int team = count > 1 && grains >= 2 ? TeamSize(threads) : 1;
  if (team > 1) {
    const int most = static_cast<int>(std::min<int64_t>(threads, count));
    const int pieces = std::min(most, ChoosePieces(team, grains, IsWarm(team)));
    if (pieces > 1) {
      if (grains < kSharedFrom * pieces || pieces > WorkShares::kMost) {
        return RunEven(team, pieces, count, body);
      }
      const double least = std::ceil(kPortionGrains * static_cast<double>(count) / grains);
      return RunShared(team, pieces, count, static_cast<int64_t>(least), body);
    }
  }
#endif
  body(0, 0, count);
}

template <typename Body>
void RunPlaces(int threads, int64_t count, double grains, Body body) {
  using Any = FunctionRef<void(int, int64_t, int64_t)>;
  if (count <= 0) return;
  if (t_piece_observer != nullptr) {
    return Observed([&](auto observed) { RunPlaces(threads, count, grains, Any(observed)); }, body);
  }
  if (t_stop == nullptr || grains < kAskedFrom) {
    RunPieces(threads, count, grains, body);
  } else {
    RunPieces(threads, count, grains, [body](int place, int64_t begin, int64_t end) {
      RunInParts(place, begin, end, body);
    });
  }
  ThrowIfCancelled();
}

}  // namespace

void ParallelPlaces(int threads, int64_t count, double grains,
                    FunctionRef<void(int, int64_t, int64_t)> body) {
  RunPlaces(threads, count, grains, body);
}

void ParallelFor(int threads, int64_t count, int64_t grain,
                 FunctionRef<void(int64_t, int64_t)> body) {
  const double grains = grain <= 1 ? kManyGrains : static_cast<double>(count / grain);
  RunPlaces(threads, count, grains, [body](int, int64_t begin, int64_t end) { body(begin, end); });
}

void ParallelPieces([[maybe_unused]] int threads, int pieces, [[maybe_unused]] double grains,
                    FunctionRef<void(int)> body) {
  if (t_piece_observer != nullptr) {
    return Observed([&](auto observed) { ParallelPieces(threads, pieces, grains, observed); },
                    body);
  }
#ifdef OORT_SEVERAL_THREADS
  const int team = pieces > 1 ? TeamSize(threads) : 1;
  if (team > 1 && ChoosePieces(team, grains, IsWarm(team)) > 1) {
    RunTeam(team, pieces, body);
    return ThrowIfCancelled();
  }
#endif
  for (int i = 0; i < pieces && !IsCancelled(); ++i) body(i);
  ThrowIfCancelled();
}

void Context::ParallelFor(int64_t count, int64_t grain,
                          FunctionRef<void(int64_t, int64_t)> body) const {
  oort::ParallelFor(threads_, count, grain, body);
}

}  // namespace oort
