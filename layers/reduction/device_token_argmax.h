// SPDX-License-Identifier: MIT
#pragma once

#include "layers/device_kernel.h"

namespace oort {

/// What oort.Argmax does, of f32 rows along the last axis into i32.
inline DeviceKernel<void(cuda::Stream&, const Tensor& x, Tensor& y)> device_token_argmax;

}  // namespace oort
