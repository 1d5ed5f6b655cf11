// SPDX-License-Identifier: MIT
#pragma once

#include "layers/device_kernel.h"

namespace oort {

/// torch.triu (`upper`) or tril of a stack of matrices on the GPU.
inline DeviceKernel<void(cuda::Stream&, bool upper, int64_t diagonal, const Tensor& x, Tensor& y)>
    device_triangle;

/// start + i * step, of the numbers for floats and of the others for integers, on the GPU.
inline DeviceKernel<void(cuda::Stream&, double start, double step, int64_t whole_start,
                         int64_t whole_step, Tensor& y)>
    device_arange;

}  // namespace oort
