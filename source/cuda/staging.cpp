// SPDX-License-Identifier: MIT
#include "cuda/staging.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "cuda/memory.h"

namespace oort::cuda {

StagingRing::StagingRing(int device) : stream_(device) {
  for (Slot& slot : slots_) {
    slot.pinned = AllocatePinned(kSlotBytes);
    slot.copied = std::make_unique<Event>(device);
  }
}

StagingRing& StagingRing::Of(int device) {
  // Never destroyed: the driver may be gone before static objects are.
  static std::mutex* const mutex = new std::mutex;
  static auto* const rings = new std::map<int, std::unique_ptr<StagingRing>>;
  const std::lock_guard lock(*mutex);
  std::unique_ptr<StagingRing>& ring = (*rings)[device];
  if (!ring) ring = std::make_unique<StagingRing>(device);
  return *ring;
}

void StagingRing::Upload(void* to, const void* from, size_t bytes) {
  const std::lock_guard lock(mutex_);
  const DeviceGuard guard(stream_.device());
  auto* const target = static_cast<std::byte*>(to);
  const auto* const source = static_cast<const std::byte*>(from);
  for (size_t done = 0, i = 0; done < bytes; ++i) {
    Slot& slot = slots_[i % kSlots];
    const size_t count = std::min(kSlotBytes, bytes - done);
    slot.copied->Synchronize();
    std::memcpy(slot.pinned->data(), source + done, count);
    stream_.CopyToDevice(target + done, slot.pinned->data(), count);
    slot.copied->Record(stream_);
    done += count;
  }
  stream_.Synchronize();
}

}  // namespace oort::cuda
