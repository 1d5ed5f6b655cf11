// SPDX-License-Identifier: MIT
// Which memory of a device is handed out: the policy alone, over an allocator that a test can fake.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>

#include "cuda/host/statistics.h"

namespace oort::cuda {

/// A point in the work of a device.
class Fence {
 public:
  virtual ~Fence() = default;
  virtual bool Passed() = 0;
};

/// Where segments come from.
class RawMemory {
 public:
  virtual ~RawMemory() = default;
  virtual void* Allocate(size_t bytes) = 0;  ///< null if refused
  virtual void Free(void* segment) = 0;
  /// Behind all work of that stream so far; null if there is none to wait for.
  virtual std::unique_ptr<Fence> Mark(uint64_t stream) = 0;
  /// Waits until all fences have passed.
  virtual void Finish() = 0;
};

/// Keeps what is given back for the next who asks: the smallest block that fits, of which large
/// ones are split; neighbours that are free grow together again. A block that a stream used is
/// given to the same stream at once (its work is in order) and to others when its fence has passed.
/// Thread contract: any number of threads.
class BlockCache {
 public:
  static constexpr size_t kGranule = 512;            ///< blocks are multiples of it
  static constexpr size_t kSmall = size_t{1} << 20;  ///< up to here blocks share a segment of
  static constexpr size_t kSmallSegment = size_t{2} << 20;
  static constexpr size_t kMedium = size_t{16} << 20;  ///< up to here they share one of
  static constexpr size_t kMediumSegment = size_t{32} << 20;
  static constexpr size_t kPage = size_t{2} << 20;  ///< larger ones are multiples of it

  explicit BlockCache(RawMemory& memory) : memory_(memory) {}
  ~BlockCache();
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;

  /// For work of `stream` (its id), or for any if 0. Never null; throws kOutOfMemory when the
  /// device refuses even after all that is free was given back to it.
  void* Allocate(size_t bytes, uint64_t stream);
  /// Work on the block must be done, or enqueued in the stream that it was allocated for.
  void Free(void* data);
  /// Gives whole segments that nobody uses back to the device.
  void Trim();
  MemoryStatistics Statistics() const;

 private:
  struct Block {
    std::byte* data;
    size_t size;
    uint64_t stream = 0;  // whose work may still use it while it is free
    std::unique_ptr<Fence> fence;
    bool free = false;
    Block *before = nullptr, *after = nullptr;  // neighbours in the segment
    bool Whole() const { return before == nullptr && after == nullptr; }
  };
  struct Smaller {
    bool operator()(const Block* a, const Block* b) const {
      return a->size != b->size ? a->size < b->size : a->data < b->data;
    }
  };

  static size_t SegmentSize(size_t bytes);
  static bool SharesSegments(size_t block, size_t bytes);
  bool Usable(Block& block, uint64_t stream);
  Block* TakeFree(size_t bytes, uint64_t stream);
  Block* NewSegment(size_t bytes);
  void Split(Block* block, size_t bytes);
  Block* Merged(Block* block);
  bool Settled(Block& block);
  void TrimLocked();

  RawMemory& memory_;
  mutable std::mutex mutex_;
  std::unordered_map<void*, std::unique_ptr<Block>> blocks_;
  std::set<Block*, Smaller> free_;
  MemoryStatistics statistics_;
};

}  // namespace oort::cuda
