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

/// Before this call a kernel must not read what a kernel before it writes, and must not write
/// anything.
__device__ __forceinline__ void WaitForPredecessor() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Asks for as much shared memory as there is. A multiprocessor changes the split between shared
/// memory and L1 cache only when it is idle, so kernels that follow each other closely should all
/// ask for the same.
template <typename Kernel>
void PreferShared(Kernel kernel) {
  Check(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                             cudaSharedmemCarveoutMaxShared),
        "the share of shared memory");
}

inline int ComputeMajor(int device) {
  int major = 0;
  Check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
        "the compute capability");
  return major;
}

}  // namespace oort::cuda
