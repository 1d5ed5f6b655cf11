// SPDX-License-Identifier: MIT
#pragma once

#include "layers/device_kernel.h"
#include "layers/resize/resize_axis.h"

namespace oort {

/// Nearest neighbours of elements of any dtype, linear and cubic interpolation of floats.
void ResizeOnDevice(cuda::Stream&, const ResizeGeometry&, ResizeMode, bool align_corners,
                    const Tensor& x, Tensor& y) OORT_CUDA_ONLY;

}  // namespace oort
