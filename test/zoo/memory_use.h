// SPDX-License-Identifier: MIT
// How much memory a piece of code takes: memory_test.cpp replaces operator new for this program.
#pragma once

#include <cstddef>

#include "core/cpu_limits.h"

namespace oort::testing {

struct MemoryUse {
  size_t peak = 0;  ///< most bytes held at once, beyond those held before
  size_t left = 0;  ///< bytes still held
};

/// Bytes now held and the most since the last reset, by all threads.
size_t LiveBytes();
size_t PeakBytes();
void ResetPeak();

template <typename Body>
MemoryUse Measure(const Body& body) {
  AvailableThreads();  // what is found out of the machine once stays
  ResetPeak();
  const size_t before = LiveBytes();
  body();
  const size_t after = LiveBytes();
  return {PeakBytes() - before, after > before ? after - before : 0};
}

}  // namespace oort::testing
