// SPDX-License-Identifier: MIT
// Which instance of a kernel of gemv*.cu or split_gemv*.cu multiplies given weights.
#pragma once

#include "layers/quantized_linear/cuda/gemv_parts.h"

namespace oort::cuda::gemv {

/// Calls visit with the Kind of these weights.
template <typename Weights, typename Visit>
auto WithPackedKind(const DeviceWeights& w, const Visit& visit) {
  const auto scaled = [&]<typename Scale>(Scale) {
    if (w.has_minimum) {
      return w.chunk_scales ? visit(Kind<Weights, Scale, true, true>())
                            : visit(Kind<Weights, Scale, true, false>());
    }
    return w.chunk_scales ? visit(Kind<Weights, Scale, false, true>())
                          : visit(Kind<Weights, Scale, false, false>());
  };
  return w.f32_scales ? scaled(float2()) : scaled(__half2());
}

}  // namespace oort::cuda::gemv
