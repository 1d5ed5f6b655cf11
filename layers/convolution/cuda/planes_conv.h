// SPDX-License-Identifier: MIT
// Convolutions of (N, C, depth, height, width) on the device, and transposed ones: an output a
// thread. Images in NHWC have faster ones (conv.h).
#pragma once

#include <cstdint>

#include "cuda/stream.h"
#include "oort/dtype.h"

namespace oort::cuda {

/// One axis: output i reads inputs i * stride - pad + j * dilation; a transposed one adds input i
/// to outputs i * stride - pad + j * dilation.
struct PlaneWalk {
  int64_t in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, pad = 0;
};

struct PlanesConvCall {
  const void* in = nullptr;
  const void* weight = nullptr;  ///< torch's
  const void* bias = nullptr;    ///< may be null
  void* out = nullptr;
  int64_t batch = 1, groups = 1, group_in = 1, group_out = 1;
  PlaneWalk depth, height, width;
  bool transposed = false;
};
/// All tensors are `dtype`: f16, bf16, f32 or f64.
void ConvolvePlanes(const Stream& stream, const PlanesConvCall& call, DType dtype);

}  // namespace oort::cuda
