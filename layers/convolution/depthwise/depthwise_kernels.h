// SPDX-License-Identifier: MIT
// Depthwise convolution of NHWC images: the lanes of a vector are channels of one pixel, each with
// its own weights.
#pragma once

#include "cpu/activation.h"
#include "cpu/lanes_kernels.h"

namespace oort {

/// How a kernel moves along one axis.
struct PixelSteps {
  int64_t kernel, stride, dilation;
};

/// Some channels of a few rows of outputs. Distances are in elements.
template <typename T>
struct NhwcDepthwiseRowsOf {
  const T* in;  ///< the first of the channels, in row 0 and column 0 of the image
  int64_t in_height, in_width;
  int64_t in_row, in_pixel;
  int64_t top, left;  ///< what lies under the first tap of the first output; padding is outside
  PixelSteps down, along;
  /// [vector of channels][kernel row][kernel column][lane], zero behind the last channel.
  const T* weight;
  const T* bias;  ///< may be null
  T* out;
  int64_t out_row, out_pixel;
  const T* addend;  ///< with the rows and pixels of `out`; may be null, may be `out`
  int64_t out_rows, out_width;
  int64_t channels;
  ActivationSpec activation;
};

template <typename T>
struct NhwcDepthwiseKernelsOf {
  int lanes;  ///< of a vector; the first channel is a multiple of it
  /// out = activation(convolution + bias + addend).
  void (*rows)(const NhwcDepthwiseRowsOf<T>& rows);
};
OORT_DECLARE_LANES_KERNELS(NhwcDepthwiseKernels)

}  // namespace oort
