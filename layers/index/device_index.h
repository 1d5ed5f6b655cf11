// SPDX-License-Identifier: MIT
#pragma once

#include "layers/device_kernel.h"

namespace oort {

// Indices are i32 or i64. One that is out of range gives zeros: a kernel cannot refuse.

/// output[o, i, :] = x[o, index[i], :] for x seen as (outer, extent, inner) around `axis`.
inline DeviceKernel<void(cuda::Stream&, const Tensor& x, const Tensor& index, int axis,
                         Tensor& output)>
    device_select;
/// output[i, j, …] = x[index[i, j, …], j, …] for axis 0, and so on; a scalar is a vector of one.
inline DeviceKernel<void(cuda::Stream&, const Tensor& x, const Tensor& index, int axis,
                         Tensor& output)>
    device_gather;

}  // namespace oort
