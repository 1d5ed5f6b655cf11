// SPDX-License-Identifier: MIT
#include "core/parallel.h"

#ifdef OORT_OPENMP
#include <omp.h>
#endif
#ifdef __linux__
#include <sched.h>
#endif

#include <algorithm>
#include <cmath>
#include <exception>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "core/piece_observer.h"
#include "oort/layer.h"

namespace oort {
namespace {

/// Whole cores of a cgroup v2 quota; a large number where there is none.
int QuotaThreads() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return 1 << 20;
  const double cores = std::strtod(quota.c_str(), nullptr) / period;
  return std::max(1, static_cast<int>(std::ceil(cores)));
}

int CountThreads() {
  int threads = static_cast<int>(std::thread::hardware_concurrency());
#ifdef __linux__
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) threads = CPU_COUNT(&set);
#endif
  return std::max(1, std::min(threads, QuotaThreads()));
}

thread_local PieceObserver* piece_observer = nullptr;

/// The same loop, told piece by piece.
void ObservedFor(int threads, int64_t count, int64_t grain,
                 const std::function<void(int64_t, int64_t)>& body) {
  struct Restorer {
    PieceObserver* observer;
    ~Restorer() { piece_observer = observer; }
  };
  // A loop inside a piece is part of that piece.
  const Restorer restorer{SetPieceObserver(nullptr)};
  ParallelFor(threads, count, grain, [&](int64_t begin, int64_t end) {
    const auto start = PieceObserver::Clock::now();
    body(begin, end);
    restorer.observer->OnPiece(start, PieceObserver::Clock::now());
  });
}

}  // namespace

PieceObserver* SetPieceObserver(PieceObserver* observer) {
  return std::exchange(piece_observer, observer);
}

int AvailableThreads() {
  static const int threads = CountThreads();
  return threads;
}

void ParallelFor(int threads, int64_t count, int64_t grain,
                 const std::function<void(int64_t, int64_t)>& body) {
  if (count <= 0) return;
  if (piece_observer != nullptr) return ObservedFor(threads, count, grain, body);
  const int64_t most = std::max<int64_t>(1, count / std::max<int64_t>(1, grain));
  [[maybe_unused]] const int pieces = static_cast<int>(std::min<int64_t>(threads, most));
#ifdef OORT_OPENMP
  if (pieces > 1) {
    std::exception_ptr failure;
    std::mutex mutex;
    // The team has the same size in every region, whatever there is to do: libgomp ends the
    // threads that a smaller team leaves over, and starts them again for the next larger one.
#pragma omp parallel num_threads(threads)
    for (int i = omp_get_thread_num(); i < pieces; i += omp_get_num_threads()) {
      try {
        body(count * i / pieces, count * (i + 1) / pieces);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
      }
    }
    if (failure) std::rethrow_exception(failure);
    return;
  }
#endif
  body(0, count);
}

void Context::ParallelFor(int64_t count, int64_t grain,
                          const std::function<void(int64_t, int64_t)>& body) const {
  oort::ParallelFor(threads_, count, grain, body);
}

}  // namespace oort
