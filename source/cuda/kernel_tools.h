// SPDX-License-Identifier: MIT
// What kernels and those who launch them share; for .cu files only.
#pragma once

#include <cuda_runtime.h>

#include "cuda/error.h"

namespace oort::cuda {

/// Lets the kernel behind this one begin, up to its own WaitForPredecessor.
__device__ __forceinline__ void LaunchDependents() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

/// Until here nothing may be read that a kernel before has written, and nothing written at all.
__device__ __forceinline__ void WaitForPredecessor() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Lets a kernel take that many bytes of dynamic shared memory.
template <typename Kernel>
void AllowShared(Kernel kernel, size_t bytes) {
  constexpr size_t kAlwaysThere = 48 * 1024;
  if (bytes <= kAlwaysThere) return;
  Check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(bytes)),
        "shared memory of a kernel");
}

inline int MultiprocessorCount(int device) {
  int count = 0;
  Check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device),
        "the number of multiprocessors");
  return count;
}

}  // namespace oort::cuda
