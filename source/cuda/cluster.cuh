// SPDX-License-Identifier: MIT
// The thread blocks of a cluster, which reach each other's shared memory. Before Hopper a block is
// alone. For .cu files.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace oort::cuda {

struct Cluster {
  uint32_t rank = 0, blocks = 1;

  __device__ static __forceinline__ Cluster Here() {
    Cluster cluster;
#if __CUDA_ARCH__ >= 900
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(cluster.rank));
    asm("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(cluster.blocks));
#endif
    return cluster;
  }

  /// For all threads, which then see what all others wrote to shared memory.
  __device__ __forceinline__ void Synchronize() const {
#if __CUDA_ARCH__ >= 900
    if (blocks > 1) {
      asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
      asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
      return;
    }
#endif
    __syncthreads();
  }

  /// The same in two halves, for clusters of several blocks, which says nothing of what threads
  /// wrote before: saying it costs a fence over the whole GPU.
  __device__ __forceinline__ void ArriveRelaxed() const {
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif
  }
  __device__ __forceinline__ void Wait() const {
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
  }

  /// Where another block has what this one has at an address of shared memory.
  template <typename T>
  __device__ __forceinline__ T* In([[maybe_unused]] uint32_t block, T* here) const {
#if __CUDA_ARCH__ >= 900
    if (blocks > 1) {
      T* there;
      asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(here), "r"(block));
      return there;
    }
#endif
    return here;
  }

  /// Writes to an address of shared memory in all blocks.
  template <typename T>
  __device__ __forceinline__ void Store(T* to, const T& value) const {
    for (uint32_t block = 0; block < blocks; ++block) *In(block, to) = value;
  }
};

}  // namespace oort::cuda
