// SPDX-License-Identifier: MIT
// Resizing of images (N, H, W, C) on the device.
#pragma once

#include <cstdint>

#include "cuda/stream.h"
#include "oort/dtype.h"

namespace oort::cuda {

enum class NhwcResizeMode : unsigned char { kNearest, kNearestExact, kLinear, kCubic };

struct NhwcResizeAxis {
  int64_t in = 1, out = 1;
  float step = 1;  ///< of the input coordinate for each output
};

struct NhwcResizeCall {
  const void* in = nullptr;
  void* out = nullptr;
  int64_t batch = 1, channels = 0;
  NhwcResizeAxis height, width;
  NhwcResizeMode mode = NhwcResizeMode::kNearest;
  bool align_corners = false;
};
/// `dtype` is f32, f16 or bf16, or u8 or i8 for what is copied alone.
void ResizePixels(const Stream& stream, const NhwcResizeCall& call, DType dtype);

}  // namespace oort::cuda
