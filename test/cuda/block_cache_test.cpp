// SPDX-License-Identifier: MIT
#include "cuda/host/block_cache.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <vector>

#include "oort/error.h"

namespace oort::cuda {
namespace {

constexpr size_t kMega = size_t{1} << 20;

/// Hands out addresses that nobody touches; streams finish when they are told to.
class FakeMemory final : public RawMemory {
 public:
  explicit FakeMemory(size_t capacity = SIZE_MAX) : capacity_(capacity) {}
  void* Allocate(size_t bytes) override {
    if (bytes > capacity_ - used) return nullptr;
    used += bytes;
    const uintptr_t address = next_;
    next_ += bytes;
    segments[address] = bytes;
    return reinterpret_cast<void*>(address);
  }
  void Free(void* segment) override {
    const auto found = segments.find(reinterpret_cast<uintptr_t>(segment));
    ASSERT_NE(found, segments.end());
    used -= found->second;
    segments.erase(found);
  }
  std::unique_ptr<Fence> Mark(uint64_t stream) override {
    if (gone.count(stream) != 0) return nullptr;
    return std::make_unique<FakeFence>(*this, ++work[stream], stream);
  }
  void Finish() override {
    for (auto& [stream, count] : work) done[stream] = count;
  }

  size_t used = 0;
  std::map<uintptr_t, size_t> segments;
  std::set<uint64_t> gone;
  std::map<uint64_t, uint64_t> work, done;

 private:
  struct FakeFence final : Fence {
    FakeFence(FakeMemory& from, uint64_t at, uint64_t of) : memory(from), point(at), stream(of) {}
    bool Passed() override { return memory.done[stream] >= point; }
    FakeMemory& memory;
    uint64_t point, stream;
  };
  size_t capacity_;
  uintptr_t next_ = 0x100000;
};

TEST(BlockCache, SmallBlocksShareASegmentAndGrowTogetherAgain) {
  FakeMemory memory;
  BlockCache cache(memory);
  std::vector<void*> blocks;
  for (int i = 0; i < 100; ++i) blocks.push_back(cache.Allocate(1000, 0));
  EXPECT_EQ(memory.used, BlockCache::kSmallSegment);
  EXPECT_EQ(cache.Statistics().in_use, 100 * 1024u);
  EXPECT_EQ(cache.Statistics().blocks, 100u);
  EXPECT_EQ(std::set<void*>(blocks.begin(), blocks.end()).size(), 100u);
  for (size_t i = 0; i < blocks.size(); i += 2) cache.Free(blocks[i]);
  for (size_t i = 1; i < blocks.size(); i += 2) cache.Free(blocks[i]);
  EXPECT_EQ(cache.Statistics().in_use, 0u);
  // A block as large as half a segment fits only if the pieces are one again.
  EXPECT_EQ(cache.Allocate(kMega, 0), blocks[0]);
  EXPECT_EQ(cache.Statistics().segments, 1u);
}

TEST(BlockCache, TakesTheSmallestThatFits) {
  FakeMemory memory;
  BlockCache cache(memory);
  void* const large = cache.Allocate(40 * kMega, 0);
  void* const middle = cache.Allocate(32 * kMega, 0);
  cache.Free(large);
  cache.Free(middle);
  EXPECT_EQ(cache.Allocate(30 * kMega, 0), middle);
  EXPECT_EQ(cache.Statistics().segments, 2u);
  EXPECT_EQ(cache.Statistics().reserved, 72 * kMega);
}

TEST(BlockCache, ALargeBlockIsNotWastedOnASmallOne) {
  FakeMemory memory;
  BlockCache cache(memory);
  void* const large = cache.Allocate(200 * kMega, 0);
  cache.Free(large);
  EXPECT_NE(cache.Allocate(1000, 0), large);
  EXPECT_NE(cache.Allocate(20 * kMega, 0), large);
  EXPECT_EQ(cache.Allocate(190 * kMega, 0), large);
}

TEST(BlockCache, AStreamGetsItsBlockBackAtOnceAndOthersAfterItsWork) {
  FakeMemory memory;
  BlockCache cache(memory);
  void* const block = cache.Allocate(20 * kMega, 1);
  cache.Free(block);
  EXPECT_EQ(cache.Allocate(20 * kMega, 1), block);
  cache.Free(block);
  void* const other = cache.Allocate(20 * kMega, 2);
  EXPECT_NE(other, block);
  memory.Finish();
  EXPECT_EQ(cache.Allocate(20 * kMega, 2), block);
}

TEST(BlockCache, NeighboursOfBusyStreamsStayApart) {
  FakeMemory memory;
  BlockCache cache(memory);
  void* const first = cache.Allocate(kMega, 1);
  void* const second = cache.Allocate(kMega, 2);
  cache.Free(first);
  cache.Free(second);
  EXPECT_NE(cache.Allocate(kMega, 3), first);
  EXPECT_EQ(cache.Statistics().segments, 2u);
  cache.Trim();
  EXPECT_EQ(memory.segments.size(), 2u);  // their work is not done
  memory.Finish();
  cache.Trim();
  EXPECT_EQ(memory.segments.size(), 1u);  // that of stream 3
}

TEST(BlockCache, WhatAStreamLeftBehindIsFreeWhenItIsGone) {
  FakeMemory memory;
  BlockCache cache(memory);
  void* const block = cache.Allocate(20 * kMega, 1);
  memory.gone.insert(1);
  cache.Free(block);
  EXPECT_EQ(cache.Allocate(20 * kMega, 2), block);
}

TEST(BlockCache, ARefusalGivesTheFreeSegmentsBackAndTriesAgain) {
  FakeMemory memory(100 * kMega);
  BlockCache cache(memory);
  void* const a = cache.Allocate(40 * kMega, 1);
  void* const b = cache.Allocate(40 * kMega, 2);
  cache.Free(a);
  cache.Free(b);
  EXPECT_NE(cache.Allocate(90 * kMega, 3), nullptr);
  EXPECT_EQ(memory.used, 90 * kMega);
  EXPECT_EQ(cache.Statistics().most_reserved, 90 * kMega);
}

TEST(BlockCache, OutOfMemoryIsAnErrorAndChangesNothing) {
  FakeMemory memory(100 * kMega);
  BlockCache cache(memory);
  void* const kept = cache.Allocate(60 * kMega, 0);
  try {
    cache.Allocate(50 * kMega, 0);
    FAIL() << "50 MB were not there";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
    EXPECT_NE(std::string(error.what()).find("52428800"), std::string::npos) << error.what();
  }
  EXPECT_THROW(cache.Allocate(SIZE_MAX - 5, 0), Error);
  EXPECT_EQ(cache.Statistics().in_use, 60 * kMega);
  EXPECT_NE(cache.Allocate(30 * kMega, 0), nullptr);
  cache.Free(kept);
}

TEST(BlockCache, GivesEverythingBackAtItsEnd) {
  FakeMemory memory;
  {
    BlockCache cache(memory);
    cache.Free(cache.Allocate(5, 0));
    cache.Free(cache.Allocate(5 * kMega, 1));
    cache.Allocate(50 * kMega, 1);
  }
  EXPECT_EQ(memory.used, 0u);
}

TEST(BlockCache, RandomUseNeverHandsOutBytesTwice) {
  FakeMemory memory;
  BlockCache cache(memory);
  std::map<std::byte*, size_t> live;
  uint64_t state = 12345;
  const auto next = [&](uint64_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % below;
  };
  for (int i = 0; i < 4000; ++i) {
    if (next(2) == 0 || live.empty()) {
      const size_t bytes = 1 + next(next(4) == 0 ? 40 * kMega : 100000);
      auto* const data = static_cast<std::byte*>(cache.Allocate(bytes, next(4)));
      const auto after = live.lower_bound(data);
      if (after != live.end()) {
        ASSERT_LE(data + bytes, after->first);
      }
      if (after != live.begin()) {
        ASSERT_LE(std::prev(after)->first + std::prev(after)->second, data);
      }
      live[data] = bytes;
    } else {
      auto victim = live.begin();
      std::advance(victim, static_cast<long>(next(live.size())));
      cache.Free(victim->first);
      live.erase(victim);
    }
    if (next(50) == 0) memory.Finish();
    if (next(200) == 0) cache.Trim();
  }
  for (const auto& [data, bytes] : live) cache.Free(data);
  memory.Finish();
  cache.Trim();
  EXPECT_EQ(memory.used, 0u);
  EXPECT_EQ(cache.Statistics().in_use, 0u);
  EXPECT_EQ(cache.Statistics().reserved, 0u);
}

}  // namespace
}  // namespace oort::cuda
