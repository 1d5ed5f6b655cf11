// SPDX-License-Identifier: MIT
// How a profiler sees what each thread does in parallel loops.
#pragma once

#include <chrono>

namespace oort {

/// Is told of every piece that a ParallelFor runs, from the thread that ran it.
class PieceObserver {
 public:
  using Clock = std::chrono::steady_clock;
  virtual ~PieceObserver() = default;
  virtual void OnPiece(Clock::time_point begin, Clock::time_point end) = 0;
};

/// Sets the observer of the loops that this thread starts, null for none; returns the one before.
PieceObserver* SetPieceObserver(PieceObserver* observer);

}  // namespace oort
