// SPDX-License-Identifier: MIT
#pragma once

#include "cuda/epilogue.h"

namespace oort::cuda {

/// What the kernel is given: ConvCall in 32 bits, and what follows from it.
struct GemmConv {
  const void* in;
  const void* weight;
  void* out;
  Epilogue epilogue;
  int rows, filters, channels;
  int height, width, out_width, out_plane;
  int in_pixel, out_pixel, depth;
  int kernel_height, kernel_width;
  int stride_down, stride_along, pad_top, pad_left, dilation_down, dilation_along;
  int row_step, column_step, channel_step;  // what a step along the taps and channels adds
  int steps;                                // along the taps and channels
  int column_tiles, splits;
  bool whole_pieces;  // out and addend may be moved 16 bytes at a time
};

}  // namespace oort::cuda
