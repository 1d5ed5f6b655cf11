// SPDX-License-Identifier: MIT
// How much memory the process takes more than at a time before, as the system counts it.
#pragma once

#include <cstddef>

namespace oort::cli {

class MemoryGrowth {
 public:
  /// From now on. Brings in the pages of the program and its libraries, which would else come as
  /// they are used and count as growth.
  MemoryGrowth();
  void Measure();
  /// Bytes in memory when it was last measured, and the most until then; 0 where the system does
  /// not tell.
  size_t resident() const { return resident_; }
  size_t peak() const { return peak_; }

 private:
  size_t before_ = 0, resident_ = 0, peak_ = 0;
};

}  // namespace oort::cli
