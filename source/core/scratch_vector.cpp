// SPDX-License-Identifier: MIT
#include "core/scratch_vector.h"

#include <array>
#include <bit>

#include "core/exact_buffers.h"

namespace oort {

#ifdef OORT_EXACT_BUFFERS

void* ScratchPool::Take(size_t bytes) { return ::operator new(bytes); }
void ScratchPool::Give(void* block, size_t) noexcept { ::operator delete(block); }
void ScratchPool::Clear() noexcept {}

#else

namespace {

// Blocks of 64 bytes, 128 and so on up to half a megabyte; a few of each are kept.
constexpr int kSmallestBits = 6, kClasses = 14, kMostKept = 16;

struct FreeBlock {
  FreeBlock* next;
};
struct Shelf {
  FreeBlock* first;
  int count;
};
// Without a destructor: vectors that die with the thread may still give their blocks back.
thread_local std::array<Shelf, kClasses> t_shelves{};
thread_local bool t_closed = false;

struct Closer {
  ~Closer() {
    t_closed = true;
    ScratchPool::Clear();
  }
};

int ClassOf(size_t bytes) {
  const int bits = bytes <= 1 ? 0 : static_cast<int>(std::bit_width(bytes - 1));
  return bits < kSmallestBits ? 0 : bits - kSmallestBits;
}

}  // namespace

void* ScratchPool::Take(size_t bytes) {
  const int size_class = ClassOf(bytes);
  if (size_class >= kClasses) return ::operator new(bytes);
  Shelf& shelf = t_shelves[static_cast<size_t>(size_class)];
  if (shelf.first == nullptr) return ::operator new (size_t{1} << (size_class + kSmallestBits));
  FreeBlock* block = shelf.first;
  shelf.first = block->next;
  --shelf.count;
  return block;
}

void ScratchPool::Give(void* block, size_t bytes) noexcept {
  const int size_class = ClassOf(bytes);
  if (size_class >= kClasses || t_closed) return ::operator delete(block);
  Shelf& shelf = t_shelves[static_cast<size_t>(size_class)];
  if (shelf.count >= kMostKept) return ::operator delete(block);
  thread_local Closer closer;
  shelf.first = new (block) FreeBlock{shelf.first};
  ++shelf.count;
}

void ScratchPool::Clear() noexcept {
  for (Shelf& shelf : t_shelves) {
    while (shelf.first != nullptr) {
      FreeBlock* block = shelf.first;
      shelf.first = block->next;
      ::operator delete(block);
    }
    shelf.count = 0;
  }
}

#endif

}  // namespace oort
