// SPDX-License-Identifier: MIT
// Vectors for what a layer needs only while it runs: their memory stays with the thread for the
// next one, so that a Forward like the last one allocates nothing.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace oort {

/// Blocks of memory that this thread has used before. Thread contract: a block may be given back on
/// another thread than it was taken on.
class ScratchPool {
 public:
  static void* Take(size_t bytes);
  static void Give(void* block, size_t bytes) noexcept;
  /// Frees what this thread keeps.
  static void Clear() noexcept;
};

template <typename T>
struct ScratchAllocator {
  using value_type = T;
  ScratchAllocator() = default;
  template <typename Other>
  ScratchAllocator(const ScratchAllocator<Other>&) {}  // NOLINT: implicit on purpose
  T* allocate(size_t count) {
    static_assert(alignof(T) <= alignof(std::max_align_t));
    if (count > static_cast<size_t>(-1) / sizeof(T)) throw std::bad_array_new_length();
    return static_cast<T*>(ScratchPool::Take(count * sizeof(T)));
  }
  void deallocate(T* block, size_t count) noexcept { ScratchPool::Give(block, count * sizeof(T)); }
  friend bool operator==(ScratchAllocator, ScratchAllocator) { return true; }
};

template <typename T>
using ScratchVector = std::vector<T, ScratchAllocator<T>>;

}  // namespace oort
