// SPDX-License-Identifier: MIT
#pragma once

#include "layers/device_kernel.h"

namespace oort {

/// torch.triu (`upper`) or tril of a stack of matrices on the GPU.
inline DeviceKernel<void(cuda::Stream&, bool upper, int64_t diagonal, const Tensor& x, Tensor& y)>
    device_triangle;

}  // namespace oort
