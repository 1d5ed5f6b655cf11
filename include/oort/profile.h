// SPDX-License-Identifier: MIT
// What a Forward spent its time on, and what the machine could do at best. See docs/profiling.md.
#pragma once

#include <string>
#include <vector>

#include "oort/layer.h"

namespace oort {

/// Filled by a Forward whose RunOptions::profile points here; what was in it is replaced.
struct Profile {
  /// Times are seconds since the Forward began.
  struct Slice {
    int node = 0;    ///< index into PlanReport::nodes
    int thread = 0;  ///< 0 is the caller's
    double begin = 0, end = 0;
    double seconds() const { return end - begin; }
  };
  double seconds = 0;         ///< of the whole Forward
  std::vector<Slice> steps;   ///< one for each operator, in the order they ran
  std::vector<Slice> pieces;  ///< what each thread did of them in parallel loops
  std::vector<Cost> work;     ///< of each operator, with the shapes of this run
};

/// The most that this machine was seen to do.
struct MachineRoofs {
  /// Multiply-adds in registers, two operations each.
  struct Compute {
    Isa isa = Isa::kScalar;
    DType dtype = DType::kF32;
    double flops_one = 0, flops_all = 0;  ///< a second, of one thread and of all together
  };
  /// Reading alone.
  struct Memory {
    std::string name;         ///< "L1", "L2", "L3", "memory"
    size_t size_one = 0;      ///< bytes that one thread finds there; SIZE_MAX for memory
    size_t size_all = 0;      ///< that all threads together find there
    double one = 0, all = 0;  ///< bytes a second
  };
  int threads = 1;
  std::vector<Compute> compute;  ///< f32 in the order of SupportedIsas, then smaller types
  std::vector<Memory> memory;    ///< smallest first
  double loop_seconds = 0;       ///< what a parallel loop over nothing takes with all threads
};

/// Measures them on `threads` threads (0: as many as the process may use); takes about a second.
MachineRoofs MeasureRoofs(int threads = 0);

}  // namespace oort
