// SPDX-License-Identifier: MIT
// For .cu files.
#pragma once

#include "layers/quantized_linear/cuda/gemv.h"

namespace oort::cuda {

__device__ __forceinline__ float Activate(RowActivation kind, float v) {
  switch (kind) {
    case RowActivation::kNone: return v;
    case RowActivation::kRelu: return fmaxf(v, 0.0f);
    case RowActivation::kSilu:
      return __fdividef(v, 1.0f + __expf(-v));  // what waits for the last strip counts
    case RowActivation::kGelu: return 0.5f * v * (1.0f + erff(v * 0.70710678f));
    case RowActivation::kGeluTanh:
      return 0.5f * v * (1.0f + tanhf(0.79788456f * (v + 0.044715f * v * v * v)));
  }
  return v;
}

}  // namespace oort::cuda
