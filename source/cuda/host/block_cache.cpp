// SPDX-License-Identifier: MIT
#include "cuda/host/block_cache.h"

#include <algorithm>
#include <string>

#include "core/checked.h"
#include "oort/error.h"

namespace oort::cuda {
namespace {

size_t RoundedUp(size_t bytes, size_t unit) { return CheckedAdd(bytes, unit - 1) / unit * unit; }

}  // namespace

BlockCache::~BlockCache() {
  for (auto& [data, block] : blocks_) {
    if (block->before == nullptr) memory_.Free(data);
  }
}

size_t BlockCache::SegmentSize(size_t bytes) {
  if (bytes <= kSmall) return kSmallSegment;
  if (bytes <= kMedium) return kMediumSegment;
  return RoundedUp(bytes, kPage);
}

/// Small blocks are not cut out of large free ones, which would fragment them.
bool BlockCache::SharesSegments(size_t block, size_t bytes) {
  if (bytes <= kSmall) return block <= kSmallSegment;
  if (bytes <= kMedium) return block <= kMediumSegment;
  return block - bytes <= std::max(bytes / 4, kPage);  // a part that is lost, but never much
}

bool BlockCache::Settled(Block& block) {
  if (block.fence && !block.fence->Passed()) return false;
  block.fence.reset();
  block.stream = 0;
  return true;
}

bool BlockCache::Usable(Block& block, uint64_t stream) {
  return (stream != 0 && block.stream == stream) || Settled(block);
}

BlockCache::Block* BlockCache::TakeFree(size_t bytes, uint64_t stream) {
  Block key{nullptr, bytes};
  for (auto i = free_.lower_bound(&key); i != free_.end(); ++i) {
    Block* const block = *i;
    if (!SharesSegments(block->size, bytes)) return nullptr;
    if (!Usable(*block, stream)) continue;
    free_.erase(i);
    return block;
  }
  return nullptr;
}

BlockCache::Block* BlockCache::NewSegment(size_t bytes) {
  const size_t size = SegmentSize(bytes);
  auto block = std::make_unique<Block>();
  void* data = memory_.Allocate(size);
  if (data == nullptr) {
    // Waits for the streams that still use free blocks, then gives all whole segments back.
    memory_.Finish();
    TrimLocked();
    data = memory_.Allocate(size);
  }
  if (data == nullptr) {
    throw Error(ErrorCode::kOutOfMemory, "the GPU has no " + std::to_string(size) +
                                             " bytes left (" + std::to_string(statistics_.in_use) +
                                             " are in use here)");
  }
  statistics_.reserved += size;
  statistics_.most_reserved = std::max(statistics_.most_reserved, statistics_.reserved);
  ++statistics_.segments;
  block->data = static_cast<std::byte*>(data);
  block->size = size;
  return (blocks_[data] = std::move(block)).get();
}

void BlockCache::Split(Block* block, size_t bytes) {
  if (block->size - bytes < kGranule) return;
  if (bytes > kMedium && block->size - bytes < kPage) return;
  auto rest = std::make_unique<Block>();
  rest->data = block->data + bytes;
  rest->size = block->size - bytes;
  rest->stream = block->stream;
  rest->free = true;
  // The rest was not used since its fence; where that has not passed, a new one is behind it.
  if (block->fence) rest->fence = memory_.Mark(block->stream);
  rest->before = block;
  rest->after = block->after;
  if (block->after != nullptr) block->after->before = rest.get();
  block->after = rest.get();
  block->size = bytes;
  free_.insert(rest.get());
  blocks_[rest->data] = std::move(rest);
}

void* BlockCache::Allocate(size_t bytes, uint64_t stream) {
  const size_t size = RoundedUp(std::max<size_t>(bytes, 1), kGranule);
  const std::lock_guard lock(mutex_);
  Block* block = TakeFree(size, stream);
  if (block == nullptr) block = NewSegment(size);
  Split(block, size);
  block->free = false;
  block->fence.reset();
  block->stream = stream;
  ++statistics_.allocations;
  ++statistics_.blocks;
  statistics_.in_use += block->size;
  statistics_.most_in_use = std::max(statistics_.most_in_use, statistics_.in_use);
  return block->data;
}

/// Two free neighbours become one if nobody's work, or that of one stream, may still use them.
BlockCache::Block* BlockCache::Merged(Block* block) {
  const auto absorb = [&](Block* left, Block* right) {
    if (left == nullptr || right == nullptr || !left->free || !right->free) return block;
    if (left->stream != right->stream && !(Settled(*left) && Settled(*right))) return block;
    free_.erase(left);
    free_.erase(right);
    // `block` was freed last, so its fence is behind that of its neighbour in the same stream.
    Block* const older = block == left ? right : left;
    if (block->fence == nullptr) block->fence = std::move(older->fence);
    left->size += right->size;
    left->fence = std::move(block->fence);
    left->after = right->after;
    if (right->after != nullptr) right->after->before = left;
    free_.insert(left);
    blocks_.erase(right->data);
    return left;
  };
  block = absorb(block, block->after);
  return absorb(block->before, block);
}

void BlockCache::Free(void* data) {
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(data);
  if (found == blocks_.end()) return;
  Block* const block = found->second.get();
  statistics_.in_use -= block->size;
  --statistics_.blocks;
  block->free = true;
  if (block->stream != 0) block->fence = memory_.Mark(block->stream);
  if (block->fence == nullptr) block->stream = 0;
  free_.insert(block);
  Merged(block);
}

void BlockCache::TrimLocked() {
  // Free neighbours of different streams are merged once their fences have passed.
  bool merged = true;
  while (merged) {
    merged = false;
    for (Block* block : free_) {
      if (!Settled(*block)) continue;
      const size_t before = free_.size();
      Merged(block);
      if (free_.size() != before) {
        merged = true;
        break;
      }
    }
  }
  for (auto i = free_.begin(); i != free_.end();) {
    Block* const block = *i;
    if (!block->Whole() || !Settled(*block)) {
      ++i;
      continue;
    }
    i = free_.erase(i);
    statistics_.reserved -= block->size;
    memory_.Free(block->data);
    blocks_.erase(block->data);
  }
}

void BlockCache::Trim() {
  const std::lock_guard lock(mutex_);
  TrimLocked();
}

MemoryStatistics BlockCache::Statistics() const {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

}  // namespace oort::cuda
