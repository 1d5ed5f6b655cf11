// SPDX-License-Identifier: MIT
// Asynchronous copies into shared memory, in groups.
#pragma once

#include <cstdint>

namespace oort::cuda {

/// Asynchronous copy of `bytes`, or of that many zeros, through the L1 cache or past it.
template <int bytes, bool cached>
__device__ inline void CopyOrZero(uint32_t to, const void* from, bool valid) {
  const int size = valid ? bytes : 0;
  if constexpr (bytes == 16 && !cached) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(size));
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(bytes),
                 "r"(size));
  }
}
__device__ inline void CommitCopies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int pending>
__device__ inline void WaitForCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

}  // namespace oort::cuda
