// SPDX-License-Identifier: MIT
// Depthwise convolution of f32 images whose channels lie behind the pixels: the lanes of a vector
// are channels of one pixel, which meet weights of their own.
#pragma once

#include "cpu/activation.h"
#include "cpu/kernels.h"

namespace oort {

/// Some channels of one row of outputs. Steps from one pixel to the next are in floats.
struct PixelDepthwiseRow {
  const float* in;  ///< the first of the channels, in row 0 and column 0 of the image
  int64_t in_row, in_pixel;
  int64_t in_width;
  int64_t top, rows;     ///< the first input row under the kernel, and how many rows follow
  int64_t row_dilation;  ///< from one of these rows to the next
  const float* weight;   ///< that of the first of these rows: [kernel row][kernel column][C]
  int64_t weight_tap;    ///< from one tap to the next
  const float* bias;     ///< may be null
  int64_t kernel, stride, pad, dilation;  ///< along the row
  const float* addend;                    ///< may be null
  int64_t addend_pixel;
  float* out;
  int64_t out_pixel, out_width;
  int64_t channels;
  ActivationSpec activation;
};

struct PixelDepthwiseKernels {
  /// out = activation(convolution + bias + addend).
  void (*row)(const PixelDepthwiseRow& row);
};
OORT_DECLARE_KERNELS(PixelDepthwiseKernels)

}  // namespace oort
