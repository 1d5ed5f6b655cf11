// SPDX-License-Identifier: MIT
// Convolutions of bytes by the copy engine and the warpgroups of Hopper (compute capability 9.0
// alone): what bulk_conv.h is for 16 bits.
#pragma once

#include <span>

#include "layers/convolution/cuda/bulk_conv_args.h"
#include "layers/quantize/cuda/byte_conv.h"
#include "layers/quantize/cuda/byte_rounding.h"

namespace oort::cuda {

/// What the kernel of byte_bulk.sm90a.cu is given.
struct ByteBulk : BulkWalk {
  const float* scale;
  const float* bias;
  const int* starts;
  ByteRounding rounding;
  float addend_scale, addend_origin;
  unsigned addend_flip;
};

struct ByteBulkKernel {
  ConvTile tile;
  int step_bytes;  ///< channels of a step
  int threads, shared_bytes;
  const void* kernel;
};
std::span<const ByteBulkKernel> ByteBulkKernels();

/// One group of u8, whole 16-byte pieces of channels and results, which are plain (see ByteGemm),
/// and windows that the copy engine can walk.
bool ConvolvesBytesInBulk(const ByteConvCall& call, const ByteBulkKernel& kernel);
void ConvolveBytesInBulk(const Stream& stream, const ByteConvCall& call,
                         const ByteBulkKernel& kernel, bool overlap);

}  // namespace oort::cuda
