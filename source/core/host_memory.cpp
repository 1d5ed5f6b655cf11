// SPDX-License-Identifier: MIT
#include "core/host_memory.h"

#include <sys/mman.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <utility>

#include "core/checked.h"
#include "core/exact_buffers.h"

namespace oort {
namespace {

thread_local int64_t t_host_bytes = 0;

// Below this a page that is only begun weighs too much, except where it goes back soon.
constexpr size_t kSmallestPages = size_t{64} << 10;
constexpr size_t kLargePage = size_t{2} << 20;
// Blocks of up to half of this stand behind each other in one such stretch of addresses: alone, one
// that is smaller than a large page would have none.
constexpr size_t kRegionBytes = size_t{32} << 20;

size_t SystemPage() {
  static const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  return page;
}

/// Bytes of blocks that are in use: of much memory a begun large page is little.
std::atomic<size_t> g_page_bytes = 0;

/// Addresses that begin with a large page. Memory comes and goes with the blocks.
class PageRegion {
 public:
  /// Null where the system has none. `bytes` are whole pages.
  static std::shared_ptr<PageRegion> Map(size_t bytes, PageUse use);
  PageRegion(std::byte* pages, size_t size, PageUse use) : pages_(pages), size_(size), use_(use) {}
  ~PageRegion() { ::munmap(pages_, size_); }
  PageRegion(const PageRegion&) = delete;
  PageRegion& operator=(const PageRegion&) = delete;

  /// The next bytes, or null where they are more than there are.
  std::byte* Take(size_t bytes) {
    if (bytes > size_ - used_) return nullptr;
    std::byte* taken = pages_ + used_;
    used_ += bytes;
    if (use_ != PageUse::kPassing) Advise(static_cast<size_t>(taken - pages_));
    return taken;
  }
  /// Gives back what is not taken of the large page that was begun last, or will not make it one.
  void Trim() {
    if (use_ == PageUse::kPassing) Advise(advised_);
    if (use_ == PageUse::kKept) Collapse();
    advised_ = used_;
    const size_t end = std::min(AlignUp(used_, kLargePage), size_);
    if (end > used_) ::madvise(pages_ + used_, end - used_, MADV_DONTNEED);
  }

 private:
  /// Large pages from `begin`, where that block starts, to the end of what is used; the one that it
  /// begins only if the rest, which the next block may fill, is little. A large page that an
  /// earlier block has begun is what it is.
  void Advise([[maybe_unused]] size_t begin) {
#if defined(MADV_HUGEPAGE) && defined(MADV_NOHUGEPAGE)
    constexpr size_t kShare = 32;
    const size_t first = AlignUp(begin, kLargePage), last = used_ / kLargePage * kLargePage;
    const size_t begun = std::min(AlignUp(used_, kLargePage), size_);
    const size_t most = use_ == PageUse::kKept ? g_page_bytes / kShare : 0;
    const bool filled = begun - last == kLargePage && begun - used_ <= most;
    const size_t large = filled ? begun : last;
    if (large > first) ::madvise(pages_ + first, large - first, MADV_HUGEPAGE);
    const size_t rest = std::max(first, large);
    if (begun > rest) ::madvise(pages_ + rest, begun - rest, MADV_NOHUGEPAGE);
#endif
  }

  /// Small blocks fill a large page one after another, which is only known in the end: then its
  /// small pages are replaced by it. One with holes, where blocks have gone, stays as it is.
  void Collapse() {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    constexpr int kCollapse = 25;  // MADV_COLLAPSE of Linux 6.1, which C libraries know later
    for (size_t page = advised_ / kLargePage * kLargePage; page + kLargePage <= used_;
         page += kLargePage) {
      if (!IsResident(pages_ + page)) continue;
      ::madvise(pages_ + page, kLargePage, MADV_HUGEPAGE);
      ::madvise(pages_ + page, kLargePage, kCollapse);
    }
#endif
  }
#if defined(__linux__)
  static bool IsResident(std::byte* large_page) {
    std::array<unsigned char, kLargePage / 4096> states;
    const size_t count = kLargePage / SystemPage();
    if (::mincore(large_page, kLargePage, states.data()) != 0) return false;
    return std::all_of(states.data(), states.data() + count, [](int s) { return (s & 1) != 0; });
  }
#endif

  std::byte* pages_;
  size_t size_, used_ = 0, advised_ = 0;
  PageUse use_;
};

class PageBuffer final : public Buffer {
 public:
  /// `size` bytes of `room`, which is whole pages.
  PageBuffer(std::shared_ptr<PageRegion> region, std::byte* pages, size_t size, size_t room)
      : Buffer(pages, size, Device::Cpu()), region_(std::move(region)), room_(room) {
    CountHostBytes(static_cast<int64_t>(size_));
    g_page_bytes += room_;
  }
  ~PageBuffer() override {
    ::madvise(data_, room_, MADV_DONTNEED);
    g_page_bytes -= room_;
    CountHostBytes(-static_cast<int64_t>(size_));
  }
  PageBuffer(const PageBuffer&) = delete;
  PageBuffer& operator=(const PageBuffer&) = delete;

 private:
  std::shared_ptr<PageRegion> region_;
  size_t room_;
};

std::shared_ptr<PageRegion> PageRegion::Map([[maybe_unused]] size_t bytes,
                                            [[maybe_unused]] PageUse use) {
#ifdef OORT_EXACT_BUFFERS
  return nullptr;
#else
  const size_t mapped = bytes + kLargePage;
  void* pages = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) return nullptr;
  std::byte* begin = static_cast<std::byte*>(pages);
  const size_t before =
      AlignUp(reinterpret_cast<uintptr_t>(pages), kLargePage) - reinterpret_cast<uintptr_t>(pages);
  if (before > 0) ::munmap(begin, before);
  if (before < kLargePage) ::munmap(begin + before + bytes, kLargePage - before);
  begin += before;
  try {
    return std::make_shared<PageRegion>(begin, bytes, use);
  } catch (...) {
    ::munmap(begin, bytes);
    throw;
  }
#endif
}

/// Where blocks of one use stand behind each other.
struct SharedRegion {
  std::mutex mutex;
  std::weak_ptr<PageRegion> region;  // of those whose blocks are in use

  std::pair<std::shared_ptr<PageRegion>, std::byte*> Take(size_t room, PageUse use) {
    const std::scoped_lock lock(mutex);
    if (auto begun = region.lock()) {
      if (std::byte* pages = begun->Take(room)) return {begun, pages};
      begun->Trim();
    }
    auto next = PageRegion::Map(kRegionBytes, use);
    region = next;
    return {next, next == nullptr ? nullptr : next->Take(room)};
  }
  void Trim() {
    const std::scoped_lock lock(mutex);
    if (auto begun = region.lock()) begun->Trim();
  }
};

SharedRegion& RegionOf(PageUse use) {
  static SharedRegion kept, passing;
  return use == PageUse::kPassing ? passing : kept;
}

/// A region of its own for a large block, one that others share for a small one.
std::pair<std::shared_ptr<PageRegion>, std::byte*> TakePages(size_t room, PageUse use) {
  if (use != PageUse::kAlone && room <= kRegionBytes / 2) return RegionOf(use).Take(room, use);
  auto region = PageRegion::Map(room, PageUse::kAlone);
  return {region, region == nullptr ? nullptr : region->Take(room)};
}

}  // namespace

std::shared_ptr<Buffer> AllocatePages(size_t bytes, PageUse use) {
  if (bytes < (use == PageUse::kPassing ? SystemPage() : kSmallestPages)) {
    return AllocateHost(bytes);
  }
  if (bytes > SIZE_MAX / 2) throw Error::OutOfMemory();
  const size_t room = AlignUp(bytes, SystemPage());
  const auto [region, pages] = TakePages(room, use);
  if (pages == nullptr) return AllocateHost(bytes);
    // All pages at once: a fault for every small one would take longer than filling it.
#ifdef MADV_POPULATE_WRITE
  if (use != PageUse::kPassing) ::madvise(pages, room, MADV_POPULATE_WRITE);
#endif
  return std::make_shared<PageBuffer>(region, pages, bytes, room);
}

void TrimPages() {
  RegionOf(PageUse::kKept).Trim();
  RegionOf(PageUse::kPassing).Trim();
}

int64_t ThreadHostBytes() { return t_host_bytes; }

void CountHostBytes(int64_t change) { t_host_bytes += change; }

void TrimHostMemory() {
#ifdef __GLIBC__
  ::malloc_trim(0);
#endif
}

}  // namespace oort
