// SPDX-License-Identifier: MIT
#pragma once

#include "core/activation.h"
#include "cuda/stream.h"
#include "oort/tensor.h"

namespace oort {

/// x = activation(x) for what a product gave, which lies side by side on the GPU; false, and
/// nothing done, unless it is of f32 or 16 bits and begins at a multiple of 16 bytes.
bool ActivateOnDevice(const cuda::Stream&, const ActivationSpec&, Tensor& x);

}  // namespace oort
