// SPDX-License-Identifier: MIT
// Convolutions by the copy engine and the warpgroups of Hopper (compute capability 9.0 alone).
#pragma once

#include <span>

#include "cuda/conv/conv.h"

namespace oort::cuda {

struct BulkConvKernel {
  ConvTile tile;
  int threads, shared_bytes;
  int resident;  ///< blocks that fit on a multiprocessor
  const void* kernel;
};
/// None but for 16-bit math.
std::span<const BulkConvKernel> BulkConvKernels(ConvMath math);

/// Channels in steps of 64, one group, whole 16-byte pieces of results, an activation that the
/// kernel has, and windows that the copy engine can walk.
bool ConvolvesInBulk(const ConvCall& call, ConvMath math);
void ConvolveInBulk(const Stream& stream, const ConvCall& call, ConvMath math,
                    const BulkConvKernel& kernel, bool overlap);

}  // namespace oort::cuda
