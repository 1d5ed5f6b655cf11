// SPDX-License-Identifier: MIT
// Pooling of f32 images whose channels lie behind the pixels: a vector holds channels of one pixel,
// so that a window is folded without moving a lane.
#pragma once

#include "cpu/kernels.h"

namespace oort {

/// `count` windows in a row, each of height by width pixels; all steps in floats.
struct PixelWindows {
  const float* first;          ///< the first pixel under the first window
  int64_t height, row_step;    ///< rows under a window
  int64_t width, column_step;  ///< pixels of a row under a window
  int64_t count, step;         ///< windows, and from one to the next
  int64_t channels;
  float* out;
  int64_t out_step;  ///< from one output pixel to the next
};

struct PixelPoolKernels {
  /// The largest of each channel under each window; -inf where there is no pixel.
  void (*max)(const PixelWindows& windows);
  /// The sum of each channel under each window, divided by `divisor`.
  void (*mean)(const PixelWindows& windows, float divisor);
};
OORT_DECLARE_KERNELS(PixelPoolKernels)

}  // namespace oort
