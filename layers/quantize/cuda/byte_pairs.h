// SPDX-License-Identifier: MIT
// The first layer of networks of bytes on Hopper (compute capability 9.0 alone).
#pragma once

#include "layers/quantize/cuda/byte_conv.h"
#include "layers/quantize/cuda/byte_rounding.h"

namespace oort::cuda {

/// What the kernel of byte_pairs.sm90a.cu is given; widths of the image are in pairs of pixels.
struct BytePairs {
  const void* in;
  const void* weight;
  void* out;
  const float* scale;
  const float* bias;
  const int* starts;
  ByteRounding rounding;
  int depth, filters, padded_filters;
  int height, width, out_height, out_width, out_pixel;
  int stride_down, pad_top, pad_left;
  int line_pieces, pieces;  // 16 pixels along a line
};

ConvTile BytePairTile();
/// Pairs of pixels of four channels, windows of 7 rows and up to 8 pixels, plain results (see
/// ByteGemm) of whole pieces without an addend.
bool ConvolvesBytePairs(const ByteConvCall& call);
void ConvolveBytePairs(const Stream& stream, const ByteConvCall& call, bool overlap);

}  // namespace oort::cuda
