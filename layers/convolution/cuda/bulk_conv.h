// SPDX-License-Identifier: MIT
// Convolutions by the copy engine and the warpgroups of Hopper (compute capability 9.0 alone).
#pragma once

#include <span>

#include "layers/convolution/cuda/conv.h"

namespace oort::cuda {

struct BulkConvKernel {
  ConvTile tile;
  int threads, shared_bytes;
  int resident;  ///< blocks that fit on a multiprocessor
  const void* kernel;
};
/// None but for 16-bit math.
std::span<const BulkConvKernel> BulkConvKernels(ConvMath math);

/// One group, whole 16-byte pieces of channels and results, an activation that the kernel has, and
/// windows that the copy engine can walk. A step is 64 channels of a tap: behind the last channel
/// zeros come, and the filters of the next tap, which must be finite.
bool ConvolvesInBulk(const ConvCall& call, ConvMath math);
void ConvolveInBulk(const Stream& stream, const ConvCall& call, ConvMath math,
                    const BulkConvKernel& kernel, bool overlap);

}  // namespace oort::cuda
