// SPDX-License-Identifier: MIT
#pragma once

#include "core/activation.h"
#include "layers/device_kernel.h"

namespace oort {

/// What the means of channels go through. All tensors are f32.
struct ExciteWeights {
  Tensor squeeze;       ///< (hidden, channels)
  Tensor squeeze_bias;  ///< (hidden), zeros where there is none
  Tensor excite;        ///< (hidden, channels): transposed
  Tensor excite_bias;   ///< (channels)
  Activation squeeze_activation = Activation::kNone, excite_activation = Activation::kNone;
};

/// y = x * excite(squeeze(means of x's channels)) for images (…, H, W, C) of 16- or 32-bit floats;
/// y may be x. The weights are on the device.
void SqueezeExciteOnDevice(cuda::Stream&, const Tensor& x, Tensor& y,
                           const ExciteWeights& weights) OORT_CUDA_ONLY;

}  // namespace oort
