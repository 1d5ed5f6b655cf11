// SPDX-License-Identifier: MIT
// Convolutions of images with 8 channels of 16 bits, a piece of 16 bytes a pixel: what the first
// layers of networks become when two pixels of 4 channels are taken as one.
#pragma once

#include "layers/convolution/cuda/conv.h"

namespace oort::cuda {

/// One group, no addend, no dilation, and what is under the windows of a tile fits.
bool ConvolvesNarrow(const ConvCall& call, ConvMath math);
void ConvolveNarrow(const Stream& stream, const ConvCall& call, ConvMath math, bool overlap = true);

/// A convolution of 4 channels with stride 2 along rows as one of pairs of pixels: 8 channels and
/// stride 1. Filters have `lead` taps of zero in front, and one behind if that makes them odd.
struct PixelPairs {
  int kernel, pad, lead;  ///< along rows, in pairs

  static constexpr PixelPairs Of(int kernel, int pad) {
    const int pairs = (pad + 1) / 2, lead = 2 * pairs - pad;
    return {(kernel + lead + 1) / 2, pairs, lead};
  }
};

}  // namespace oort::cuda
