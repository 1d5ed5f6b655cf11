// SPDX-License-Identifier: MIT
// Pooling of images (…, H, W, C) on the device.
#pragma once

#include <cstdint>

#include "cuda/stream.h"
#include "oort/dtype.h"

namespace oort::cuda {

/// One axis: output i covers inputs i * stride - pad + j * dilation, 0 <= j < kernel; or, where it
/// is adaptive, those from floor(i * in / out) to ceil((i + 1) * in / out).
struct PoolWalk {
  int in = 1, out = 1, kernel = 1, stride = 1, pad = 0, dilation = 1;
};

struct NhwcPoolCall {
  const void* in = nullptr;
  void* out = nullptr;
  int64_t batch = 1;
  int channels = 0;
  PoolWalk height, width;
  bool max = false;
  bool adaptive = false;
  bool include_pad = true;  ///< in the divisor of a mean
  int64_t divisor = 0;      ///< of all means; 0: the number of inputs
};
/// `dtype` is f32, f16 or bf16; for the largest also u8 or i8. Extents are below 2^29.
void PoolPixels(const Stream& stream, const NhwcPoolCall& call, DType dtype, bool overlap = true);

}  // namespace oort::cuda
