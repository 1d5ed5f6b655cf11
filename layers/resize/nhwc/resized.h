// SPDX-License-Identifier: MIT
// Shapes of resized images (N, H, W, C), on every device.
#pragma once

#include "layers/layout/axes.h"
#include "layers/resize/resize_params.h"

namespace oort {

/// Of the image that is argument 0.
inline ResizeGeometry PixelGeometry(const ResizeParams& params, const Args& args) {
  if (args.shape(0).rank() != 4) {
    throw Error(ErrorCode::kInvalidArgument,
                "expected an input of rank 4, got " + args.shape(0).ToString());
  }
  return params.Geometry(ToNchw(args.shape(0)), args);
}

inline Tensor ResizedImage(const ResizeParams& params, const Args& args) {
  return Tensor::Meta(args.tensor(0).dtype(), ToNhwc(PixelGeometry(params, args).output));
}

}  // namespace oort
