// SPDX-License-Identifier: MIT
// The compiled kernels of byte_gemm.cu, and what they are given.
#pragma once

#include "layers/convolution/cuda/gemm_conv_args.h"
#include "layers/quantize/cuda/byte_conv.h"

namespace oort::cuda {

struct ByteGemm {
  GemmConv gemm;  ///< without an epilogue; its filters are padded
  ByteEpilogue epilogue;
  BytePadding padding;
  int filters = 0;           ///< of a group
  unsigned flip = 0;         ///< turns words of i8 into those of u8, 128 more
  bool whole_pieces = true;  ///< 8 neighbouring results may be moved at once
  /// Results are whole pieces of bytes without an activation but a clamp, and no window sees
  /// padding that counts.
  bool plain = false;
};

struct ByteGemmKernel {
  ConvTile tile;
  int threads, stages, stage_bytes, sum_bytes;
  const void* whole;  ///< for channels in multiples of 16
  const void* small;  ///< of 8
  const void* words;  ///< of 4; null, as `small`, where a tile has none
};
std::span<const ByteGemmKernel> ByteGemmKernels();

}  // namespace oort::cuda
