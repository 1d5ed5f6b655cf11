// SPDX-License-Identifier: MIT
// Starts kernels that are known by address, in clusters, with more than 48 KiB of shared memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "cuda/stream.h"

namespace oort::cuda {

struct DeviceTraits {
  int multiprocessors = 1;
  bool clusters = false;  ///< blocks can share memory, and kernels can overlap
  bool bulk = false;      ///< the kernels of *.sm90a.cu run: Hopper alone
};
/// Asked once a device.
const DeviceTraits& TraitsOf(int device);

/// Of one thread of a kernel; asked once a kernel.
int RegistersOf(const void* kernel);

struct KernelLaunch {
  const void* kernel = nullptr;
  dim3 blocks = dim3(1);
  unsigned threads = 1;
  unsigned cluster = 1;  ///< neighbouring blocks along x
  size_t shared = 0;
  bool overlap = false;  ///< with the kernel in front, as far as the device can
};
/// How many clusters of such a launch the device has room for at a time, at least one; asked once a
/// kernel.
unsigned ClustersAtOnce(const KernelLaunch& launch, int device);
/// `args` is the only argument of the kernel.
void Launch(const Stream& stream, const KernelLaunch& launch, const void* args);

}  // namespace oort::cuda
