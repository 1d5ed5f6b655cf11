// SPDX-License-Identifier: MIT
#pragma once

#include "layers/device_kernel.h"

namespace oort {

/// Products of `count` pairs of dense matrices (m,k) and (k,n), or of those that lie the other way.
struct DeviceProduct {
  int64_t count = 1, m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  DType dtype = DType::kF32;
};
/// All of them on the GPU; the workspace has ProductBytesOnDevice.
void ProductOnDevice(cuda::Stream&, const DeviceProduct&, const void* a, const void* b, void* c,
                     void* workspace) OORT_CUDA_ONLY;
size_t ProductBytesOnDevice(const DeviceProduct&, int device) OORT_CUDA_ONLY;
/// Throws kUnsupported where cuBLASLt is missing.
void RequireProductsOnDevice() OORT_CUDA_ONLY;

}  // namespace oort
