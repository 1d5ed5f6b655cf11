// SPDX-License-Identifier: MIT
#include "core/host_memory.h"

#include <sys/mman.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "core/exact_buffers.h"

namespace oort {
namespace {

thread_local int64_t t_host_bytes = 0;

// Below this a page that is only begun weighs too much.
constexpr size_t kSmallestPages = size_t{256} << 10;
[[maybe_unused]] constexpr size_t kLargePage = size_t{2} << 20;

class PageBuffer final : public Buffer {
 public:
  PageBuffer(void* pages, size_t size)
      : Buffer(static_cast<std::byte*>(pages), size, Device::Cpu()) {
    CountHostBytes(static_cast<int64_t>(size));
  }
  ~PageBuffer() override {
    ::munmap(data_, size_);
    CountHostBytes(-static_cast<int64_t>(size_));
  }
  PageBuffer(const PageBuffer&) = delete;
  PageBuffer& operator=(const PageBuffer&) = delete;
};

void* MapPages([[maybe_unused]] size_t bytes) {
#ifdef OORT_EXACT_BUFFERS
  return nullptr;
#else
  void* pages = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return nullptr;
    // Large pages, and all of them at once: a fault for every small one would take longer than
    // filling it. Both are wishes; where the system does not grant them, pages come one by one.
#ifdef MADV_HUGEPAGE
  if (bytes >= kLargePage) ::madvise(pages, bytes, MADV_HUGEPAGE);
#endif
#ifdef MADV_POPULATE_WRITE
  ::madvise(pages, bytes, MADV_POPULATE_WRITE);
#endif
  return pages;
#endif
}

}  // namespace

std::shared_ptr<Buffer> AllocatePages(size_t bytes) {
  void* pages = bytes < kSmallestPages ? nullptr : MapPages(bytes);
  if (pages == nullptr) return AllocateHost(bytes);
  try {
    return std::make_shared<PageBuffer>(pages, bytes);
  } catch (...) {
    ::munmap(pages, bytes);
    throw;
  }
}

int64_t ThreadHostBytes() { return t_host_bytes; }

void CountHostBytes(int64_t change) { t_host_bytes += change; }

void TrimHostMemory() {
#ifdef __GLIBC__
  ::malloc_trim(0);
#endif
}

}  // namespace oort
