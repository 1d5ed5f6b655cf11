// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <memory>
#include <mutex>

#include "cuda/stream.h"
#include "oort/tensor.h"

namespace oort::cuda {

/// Pinned buffers through which bytes go to a GPU: one is filled while others are copied.
/// Thread contract: any number of threads; uploads come one after the other.
class StagingRing {
 public:
  explicit StagingRing(int device);
  /// That of a device, made at first use.
  static StagingRing& Of(int device);
  /// Complete on return.
  void Upload(void* to, const void* from, size_t bytes);

 private:
  static constexpr size_t kSlots = 4;
  static constexpr size_t kSlotBytes = size_t{4} << 20;
  struct Slot {
    std::shared_ptr<Buffer> pinned;
    std::unique_ptr<Event> copied;
  };
  std::mutex mutex_;
  Stream stream_;
  std::array<Slot, kSlots> slots_;
};

}  // namespace oort::cuda
