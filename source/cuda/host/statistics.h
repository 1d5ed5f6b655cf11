// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>

namespace oort::cuda {

/// Of the memory of one device that this process took through its cache.
struct MemoryStatistics {
  size_t in_use = 0, most_in_use = 0;      ///< bytes handed out
  size_t reserved = 0, most_reserved = 0;  ///< bytes taken from the device, in use or kept
  uint64_t allocations = 0;                ///< that callers made
  uint64_t segments = 0;                   ///< that were asked of the device
  uint64_t blocks = 0;                     ///< handed out now
};

}  // namespace oort::cuda
