// SPDX-License-Identifier: MIT
#pragma once

#include "layers/device_kernel.h"

namespace oort {

/// What oort.Argmax does, of f32 rows along the last axis into i32.
void TokenArgmaxOnDevice(cuda::Stream&, const Tensor& x, Tensor& y) OORT_CUDA_ONLY;

}  // namespace oort
