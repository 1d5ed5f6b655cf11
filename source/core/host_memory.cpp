// SPDX-License-Identifier: MIT
#include "core/host_memory.h"

#include <sys/mman.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <mutex>
#include <utility>

#include "core/checked.h"
#include "core/exact_buffers.h"

namespace oort {
namespace {

thread_local int64_t t_host_bytes = 0;

constexpr size_t kSmallPage = size_t{64} << 10;  // of any system
// Below this a page that is only begun weighs too much.
constexpr size_t kSmallestPages = size_t{64} << 10;
[[maybe_unused]] constexpr size_t kLargePage = size_t{2} << 20;
// Blocks of up to half of this stand behind each other in one such stretch of addresses: alone, one
// that is smaller than a large page would have none.
constexpr size_t kRegionBytes = size_t{32} << 20;

/// Addresses that begin with a large page. Memory comes and goes with the blocks.
class PageRegion {
 public:
  /// Null where the system has none.
  static std::shared_ptr<PageRegion> Map(size_t bytes);
  PageRegion(std::byte* pages, size_t size) : pages_(pages), size_(size) {}
  ~PageRegion() { ::munmap(pages_, size_); }
  PageRegion(const PageRegion&) = delete;
  PageRegion& operator=(const PageRegion&) = delete;

  /// The next bytes, or null where they are more than there are.
  std::byte* Take(size_t bytes) {
    if (bytes > size_ - used_) return nullptr;
    std::byte* taken = pages_ + used_;
    used_ += bytes;
    return taken;
  }

 private:
  std::byte* pages_;
  size_t size_, used_ = 0;
};

class PageBuffer final : public Buffer {
 public:
  /// `size` bytes of `room`, which is whole pages.
  PageBuffer(std::shared_ptr<PageRegion> region, std::byte* pages, size_t size, size_t room)
      : Buffer(pages, size, Device::Cpu()), region_(std::move(region)), room_(room) {
    CountHostBytes(static_cast<int64_t>(size_));
  }
  ~PageBuffer() override {
    ::madvise(data_, room_, MADV_DONTNEED);
    CountHostBytes(-static_cast<int64_t>(size_));
  }
  PageBuffer(const PageBuffer&) = delete;
  PageBuffer& operator=(const PageBuffer&) = delete;

 private:
  std::shared_ptr<PageRegion> region_;
  size_t room_;
};

std::shared_ptr<PageRegion> PageRegion::Map([[maybe_unused]] size_t bytes) {
#ifdef OORT_EXACT_BUFFERS
  return nullptr;
#else
  const size_t size = AlignUp(bytes, kLargePage), mapped = size + kLargePage;
  void* pages = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) return nullptr;
  std::byte* begin = static_cast<std::byte*>(pages);
  const size_t before =
      AlignUp(reinterpret_cast<uintptr_t>(pages), kLargePage) - reinterpret_cast<uintptr_t>(pages);
  if (before > 0) ::munmap(begin, before);
  if (before < kLargePage) ::munmap(begin + before + size, kLargePage - before);
  begin += before;
#ifdef MADV_HUGEPAGE
  ::madvise(begin, size, MADV_HUGEPAGE);
#endif
  try {
    return std::make_shared<PageRegion>(begin, size);
  } catch (...) {
    ::munmap(begin, size);
    throw;
  }
#endif
}

/// A region of its own for a large block, the one that all others share for a small one.
std::pair<std::shared_ptr<PageRegion>, std::byte*> TakePages(size_t room) {
  if (room > kRegionBytes / 2) {
    auto region = PageRegion::Map(room);
    return {region, region == nullptr ? nullptr : region->Take(room)};
  }
  static std::mutex mutex;
  static std::weak_ptr<PageRegion> shared;  // of those whose blocks are in use
  const std::scoped_lock lock(mutex);
  if (auto region = shared.lock()) {
    if (std::byte* pages = region->Take(room)) return {region, pages};
  }
  auto region = PageRegion::Map(kRegionBytes);
  shared = region;
  return {region, region == nullptr ? nullptr : region->Take(room)};
}

}  // namespace

std::shared_ptr<Buffer> AllocatePages(size_t bytes) {
  if (bytes < kSmallestPages) return AllocateHost(bytes);
  const size_t room = AlignUp(bytes, kSmallPage);
  const auto [region, pages] = TakePages(room);
  if (pages == nullptr) return AllocateHost(bytes);
    // All pages at once: a fault for every small one would take longer than filling it.
#ifdef MADV_POPULATE_WRITE
  ::madvise(pages, room, MADV_POPULATE_WRITE);
#endif
  return std::make_shared<PageBuffer>(region, pages, bytes, room);
}

int64_t ThreadHostBytes() { return t_host_bytes; }

void CountHostBytes(int64_t change) { t_host_bytes += change; }

void TrimHostMemory() {
#ifdef __GLIBC__
  ::malloc_trim(0);
#endif
}

}  // namespace oort
