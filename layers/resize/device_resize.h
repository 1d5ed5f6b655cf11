// SPDX-License-Identifier: MIT
#pragma once

#include "layers/device_kernel.h"
#include "layers/resize/resize_axis.h"

namespace oort {

/// Nearest neighbours of elements of any dtype, linear and cubic interpolation of floats.
inline DeviceKernel<void(cuda::Stream&, const ResizeGeometry&, ResizeMode, bool align_corners,
                         const Tensor& x, Tensor& y)>
    device_resize;

}  // namespace oort
