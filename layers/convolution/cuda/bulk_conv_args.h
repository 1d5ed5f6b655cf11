// SPDX-License-Identifier: MIT
#pragma once

#include <cuda.h>

#include "layers/convolution/cuda/fast_activation.h"

namespace oort::cuda {

/// What the threads of bulk_pipeline.cuh walk.
struct BulkWalk {
  CUtensorMap in, weight, out, addend;
  bool has_addend;
  bool windows;  // `in` is walked along windows, not as a matrix
  int filters, channels, channel_steps, taps;
  int out_plane, out_width;
  int stride_down, stride_along, pad_top, pad_left, dilation_down, dilation_along;
  int reach_down, reach_along;  // of a window: kernel times dilation
  int column_tiles, tiles;
};

/// What the kernel of bulk_conv.sm90a.cu is given.
struct BulkConv : BulkWalk {
  const float* bias;
  FastActivation activation;
};

}  // namespace oort::cuda
