// SPDX-License-Identifier: MIT
// How ranks that have a GPU each hand numbers to each other without the host in between.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "cuda/host/watch.h"

struct CUstream_st;

namespace oort {

/// A cudaStream_t.
using DeviceStream = CUstream_st*;

/// Its calls enqueue work in a stream and return; it may be recorded. Ranks make the same calls in
/// the same order. Whoever waits for the stream looks after the others (cuda::WatchScope), and is
/// thrown out where one has failed or does not come.
/// Thread contract: one thread at a time.
class DeviceGroup : public cuda::Watch {
 public:
  /// There are no other ranks: what they would hand over is taken to be what this one has, and the
  /// calls below are not to be made.
  virtual bool alone() const { return false; }
  /// `all` gets what all ranks have, one behind the other; `sizes` are the bytes of each.
  virtual void Gather(std::string_view what, const void* mine, std::span<const size_t> sizes,
                      void* all, DeviceStream stream) = 0;
  /// `mine` is a part for each rank, of so many bytes; `all` gets what they have for this one.
  virtual void Trade(std::string_view what, const void* mine, size_t bytes, void* all,
                     DeviceStream stream) = 0;
};

}  // namespace oort
