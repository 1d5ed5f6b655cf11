// SPDX-License-Identifier: MIT
// Images of u8: as torch does, along the width and then along the height, each rounded, with
// weights in fixed point.
#pragma once

#include "layers/resize/resize_axis.h"
#include "oort/layer.h"

namespace oort {

/// Bytes of the image that is resized along its width.
int64_t ResizeBytesWorkspace(const ResizeGeometry& geometry);

/// `mode` is linear or cubic; the workspace of `context` is as above.
void ResizeBytes(const Context& context, const ResizeGeometry& geometry, ResizeMode mode,
                 bool align_corners, bool antialias, const uint8_t* input, uint8_t* output);

}  // namespace oort
