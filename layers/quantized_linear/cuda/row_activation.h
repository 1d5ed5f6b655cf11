// SPDX-License-Identifier: MIT
// The activations that SupportsActivation lists. For .cu files.
#pragma once

#include "layers/quantized_linear/cuda/gemv.h"

namespace oort::cuda {

__device__ __forceinline__ float Activate(Activation kind, float v) {
  switch (kind) {
    case Activation::kNone: return v;
    case Activation::kRelu: return fmaxf(v, 0.0f);
    case Activation::kSilu:
      return __fdividef(v, 1.0f + __expf(-v));  // fast: the last strip waits for it
    case Activation::kGelu: return 0.5f * v * (1.0f + erff(v * 0.70710678f));
    case Activation::kGeluTanh:
      return 0.5f * v * (1.0f + tanhf(0.79788456f * (v + 0.044715f * v * v * v)));
    default: return v;
  }
}

}  // namespace oort::cuda
