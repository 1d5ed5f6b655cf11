// SPDX-License-Identifier: MIT
// The compiled kernels of byte_gemm.cu, and what they are given.
#pragma once

#include "layers/convolution/cuda/gemm_conv_args.h"
#include "layers/quantize/cuda/byte_conv.h"
#include "layers/quantize/cuda/byte_rounding.h"

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
  // For these alone.
  ByteRounding rounding = {};
  unsigned addend_flip = 0;       ///< makes u8 of the addend, in words
  float addend_origin = 1 << 23;  ///< more where these are i8
};

struct ByteGemmKernel {
  ConvTile tile;
  int threads, stages, stage_bytes, sum_bytes;
  const void* whole;  ///< for channels in multiples of 16
  const void* small;  ///< of 8
  const void* words;  ///< of 4; null, as `small`, where a tile has none
  bool warpgroups = false;
};
std::span<const ByteGemmKernel> ByteGemmKernels();

/// The same for Hopper alone, which multiply by warpgroups: for one group of channels of u8 whose
/// results are plain.
std::span<const ByteGemmKernel> ByteGroupKernels();

}  // namespace oort::cuda
