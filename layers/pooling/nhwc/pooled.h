// SPDX-License-Identifier: MIT
// Shapes of pooled images (…, H, W, C), on every device.
#pragma once

#include "layers/layout/axes.h"
#include "layers/per_element_layer.h"
#include "layers/pooling/adaptive.h"
#include "layers/pooling/pool_divisor.h"

namespace oort {

/// Of the image that is argument 0.
inline Tensor Pooled(const WindowParams& window, const Args& args) {
  const Shape output = window.Geometry(ToNchw(args.shape(0))).output;
  return Tensor::Meta(args.tensor(0).dtype(), ToNhwc(output));
}

/// Argument 1 says to which size.
inline AdaptiveGeometry AdaptedGeometry(const Args& args) {
  return AdaptTo(ToNchw(args.shape(0)), args[1], 2);
}
inline Tensor Adapted(const Args& args) {
  return Tensor::Meta(args.tensor(0).dtype(), ToNhwc(AdaptedGeometry(args).output));
}

inline void ThrowIfIndices(const LayerInit& init) {
  if (init.Bool("return_indices")) {
    throw Error(ErrorCode::kUnsupported, "expected return_indices=False, got True");
  }
}

}  // namespace oort
