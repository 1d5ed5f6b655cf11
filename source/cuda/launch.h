// SPDX-License-Identifier: MIT
// Starts kernels. For .cu files.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <utility>

#include "cuda/error.h"
#include "cuda/kernel_tools.h"
#include "cuda/stream.h"

namespace oort::cuda {

struct Grid {
  dim3 blocks;
  dim3 threads;
  size_t shared = 0;  ///< bytes of dynamic shared memory
  /// The kernel may start while the one before it still runs (programmatic dependent launch); it
  /// must call cudaGridDependencySynchronize() before it reads what that one writes.
  bool overlap = false;
};

/// What a block may use without asking.
inline constexpr size_t kPlainSharedBytes = size_t{48} << 10;

/// Enqueues a kernel; a grid without blocks is nothing to do. Throws where it cannot be started.
template <typename... P, typename... A>
void Launch(const Stream& stream, const Grid& grid, void (*kernel)(P...), A&&... args) {
  if (grid.blocks.x == 0 || grid.blocks.y == 0 || grid.blocks.z == 0) return;
  if (grid.shared > kPlainSharedBytes) {
    Check(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                               cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(grid.shared)),
          "asking for shared memory");
  }
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid.blocks;
  config.blockDim = grid.threads;
  config.dynamicSmemBytes = grid.shared;
  config.stream = stream.get();
  config.attrs = &attribute;
  config.numAttrs = grid.overlap ? 1 : 0;
  Check(cudaLaunchKernelEx(&config, kernel, static_cast<P>(std::forward<A>(args))...),
        "starting a kernel");
}

/// The same for a kernel that may overlap with its neighbours, products that use all shared memory.
template <typename... P, typename... A>
void LaunchBetween(const Stream& stream, const Grid& grid, void (*kernel)(P...), A&&... args) {
  PreferShared(kernel);
  Launch(stream, grid, kernel, std::forward<A>(args)...);
}

/// As many blocks of `threads` as `items` need, `per_thread` each, and at most `most`: kernels with
/// loops over the grid take fewer.
inline unsigned BlocksFor(int64_t items, int threads, int per_thread = 1,
                          int64_t most = INT32_MAX) {
  const int64_t each = int64_t{threads} * per_thread;
  const int64_t blocks = items <= 0 ? 0 : (items - 1) / each + 1;
  return static_cast<unsigned>(blocks < most ? blocks : most);
}

}  // namespace oort::cuda
