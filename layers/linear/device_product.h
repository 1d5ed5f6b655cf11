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
/// All of them on the GPU; the workspace has device_product_bytes.
inline DeviceKernel<void(cuda::Stream&, const DeviceProduct&, const void* a, const void* b, void* c,
                         void* workspace)>
    device_product;
inline DeviceKernel<void(const DeviceProduct&, int device, size_t* bytes)> device_product_bytes;
/// Throws kUnsupported unless there are products at all.
inline DeviceKernel<void()> require_device_products;

}  // namespace oort
