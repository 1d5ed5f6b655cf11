// SPDX-License-Identifier: MIT
#pragma once

#include "layers/device_kernel.h"

namespace oort {

/// torch.triu (`upper`) or tril of a stack of matrices on the GPU.
void TriangleOnDevice(cuda::Stream&, bool upper, int64_t diagonal, const Tensor& x,
                      Tensor& y) OORT_CUDA_ONLY;

/// start + i * step, of the numbers for floats and of the others for integers, on the GPU.
void ArangeOnDevice(cuda::Stream&, double start, double step, int64_t whole_start,
                    int64_t whole_step, Tensor& y) OORT_CUDA_ONLY;

}  // namespace oort
