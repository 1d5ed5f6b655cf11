// SPDX-License-Identifier: MIT
#include "llm/swap_space.h"

#include <cstring>

#include "cuda/memory.h"
#include "oort/error.h"

namespace oort {

SwapSpace::SwapSpace(const KvCache& cache, size_t most_bytes)
    : cache_(cache), most_bytes_(most_bytes), block_bytes_(KvCache::BlockBytes(cache.shape())) {}

template <typename Use>
void SwapSpace::ForEachPiece(const Sequence& sequence, std::byte* memory, const Use& use) const {
  const int64_t layers = cache_.shape().layers;
  const size_t piece = block_bytes_ / static_cast<size_t>(layers);
  const int64_t used = KvCache::BlocksFor(sequence.computed);
  for (int32_t block : sequence.cached.blocks.blocks().first(static_cast<size_t>(used))) {
    for (int64_t layer = 0; layer < layers; ++layer, memory += piece) {
      use(cache_.Keys(layer, block, 0), memory, piece);
    }
  }
}

bool SwapSpace::Save(const Sequence& sequence) {
  const size_t blocks = static_cast<size_t>(KvCache::BlocksFor(sequence.computed));
  if (blocks == 0 || most_bytes_ == 0 || blocks > (most_bytes_ - bytes_) / block_bytes_)
    return false;
  const Device device = cache_.device();
  const size_t bytes = blocks * block_bytes_;
  try {
    if (device.type == DeviceType::kCpu) {
      const auto memory = AllocateHost(bytes);
      ForEachPiece(sequence, memory->data(), [](const std::byte* from, std::byte* to, size_t size) {
        std::memcpy(to, from, size);
      });
      kept_.insert_or_assign(sequence.id, memory);
    } else {
      if (!stream_) stream_ = std::make_unique<cuda::Stream>(device.index);
      const auto memory = cuda::AllocatePinned(bytes);
      ForEachPiece(sequence, memory->data(),
                   [&](const std::byte* from, std::byte* to, size_t size) {
                     stream_->CopyToHost(to, from, size);
                   });
      stream_->Synchronize();
      kept_.insert_or_assign(sequence.id, memory);
    }
  } catch (const Error& error) {
    // Without memory for it the sequence is read again.
    if (error.code() != ErrorCode::kOutOfMemory) throw;
    return false;
  }
  bytes_ += kept_.at(sequence.id)->size();
  return true;
}

void SwapSpace::Restore(const Sequence& sequence) {
  const std::shared_ptr<Buffer> memory = kept_.at(sequence.id);
  if (cache_.device().type == DeviceType::kCpu) {
    ForEachPiece(sequence, memory->data(), [](std::byte* to, const std::byte* from, size_t size) {
      std::memcpy(to, from, size);
    });
  } else {
    ForEachPiece(sequence, memory->data(), [&](std::byte* to, const std::byte* from, size_t size) {
      stream_->CopyToDevice(to, from, size);
    });
    stream_->Synchronize();
  }
  Forget(sequence);
}

void SwapSpace::Forget(const Sequence& sequence) noexcept {
  const auto found = kept_.find(sequence.id);
  if (found == kept_.end()) return;
  bytes_ -= found->second->size();
  kept_.erase(found);
}

}  // namespace oort
