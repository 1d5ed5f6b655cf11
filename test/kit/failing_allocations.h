// SPDX-License-Identifier: MIT
// Replaces operator new of a program, so that tests can let single allocations fail. One source of
// the program includes it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace oort::testing {

struct Allocations {
  bool counting = false;
  long until_failure = -1;  // negative: never fail
  long live = 0;
  bool failed = false;
  bool lasting = false;  ///< all behind the first failure fail as well, until nobody counts
};
inline constinit thread_local Allocations t_allocations;

/// Allocations of all threads but those that are spared: the n-th of them all fails.
struct SharedAllocations {
  std::atomic<long> until_failure = -1;  ///< negative: none fails
  std::atomic<bool> failed = false;
};
inline constinit SharedAllocations g_others;
inline constinit thread_local bool t_spared = false;

/// The n-th allocation of other threads than the one that says so, and than those that ever did,
/// fails while this lives.
class OneOfOthersFails {
 public:
  explicit OneOfOthersFails(long n) {
    t_spared = true;
    g_others.failed = false;
    g_others.until_failure = n;
  }
  ~OneOfOthersFails() { g_others.until_failure = -1; }
  OneOfOthersFails(const OneOfOthersFails&) = delete;
  OneOfOthersFails& operator=(const OneOfOthersFails&) = delete;
  bool failed() const { return g_others.failed; }
};

/// Allocates for callbacks of a test on a thread that is not spared.
class Spared {
 public:
  Spared() { t_spared = true; }
  ~Spared() { t_spared = before_; }
  Spared(const Spared&) = delete;
  Spared& operator=(const Spared&) = delete;

 private:
  const bool before_ = t_spared;
};

inline bool OtherFails() {
  if (t_spared || g_others.until_failure < 0 || g_others.until_failure-- != 0) return false;
  g_others.failed = true;
  return true;
}

inline void* Allocate(std::size_t size, std::size_t alignment) {
  Allocations& state = t_allocations;
  const bool is_next = state.counting && state.until_failure >= 0 && state.until_failure-- == 0;
  if (is_next || (state.counting && state.failed && state.lasting)) {
    state.failed = true;
    return nullptr;
  }
  if (OtherFails()) return nullptr;
  void* memory = nullptr;
  if (posix_memalign(&memory, alignment < sizeof(void*) ? sizeof(void*) : alignment,
                     size == 0 ? 1 : size) != 0) {
    return nullptr;
  }
  if (state.counting) ++state.live;
  return memory;
}

inline void* AllocateOrThrow(std::size_t size, std::size_t alignment) {
  void* memory = Allocate(size, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

inline void Free(void* memory) noexcept {
  if (memory == nullptr) return;
  if (t_allocations.counting) --t_allocations.live;
  std::free(memory);
}

}  // namespace oort::testing

void* operator new(std::size_t size) {
  return oort::testing::AllocateOrThrow(size, alignof(std::max_align_t));
}
void* operator new[](std::size_t size) {
  return oort::testing::AllocateOrThrow(size, alignof(std::max_align_t));
}
void* operator new(std::size_t size, std::align_val_t align) {
  return oort::testing::AllocateOrThrow(size, static_cast<std::size_t>(align));
}
void* operator new[](std::size_t size, std::align_val_t align) {
  return oort::testing::AllocateOrThrow(size, static_cast<std::size_t>(align));
}
// The standard library asks for sorting buffers this way and goes on without them: never fails.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  const long until_failure = oort::testing::t_allocations.until_failure;
  oort::testing::t_allocations.until_failure = -1;
  const oort::testing::Spared spared;
  void* memory = oort::testing::Allocate(size, alignof(std::max_align_t));
  oort::testing::t_allocations.until_failure = until_failure;
  return memory;
}
void* operator new(std::size_t size, std::align_val_t align, const std::nothrow_t&) noexcept {
  return oort::testing::Allocate(size, static_cast<std::size_t>(align));
}
void operator delete(void* memory) noexcept { oort::testing::Free(memory); }
void operator delete[](void* memory) noexcept { oort::testing::Free(memory); }
void operator delete(void* memory, std::size_t) noexcept { oort::testing::Free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { oort::testing::Free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { oort::testing::Free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { oort::testing::Free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  oort::testing::Free(memory);
}
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  oort::testing::Free(memory);
}
