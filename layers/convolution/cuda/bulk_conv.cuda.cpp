// SPDX-License-Identifier: MIT
#include "layers/convolution/cuda/bulk_conv.h"

#include <algorithm>

#include "cuda/kernel_launch.h"
#include "cuda/tensor_map.h"
#include "layers/convolution/cuda/bulk_conv_args.h"
#include "layers/convolution/cuda/bulk_walk.h"

namespace oort::cuda {
namespace {

constexpr int kBoxRows = 64;

DType DTypeOf(ConvMath math) { return math == ConvMath::kF16 ? DType::kF16 : DType::kBF16; }

}  // namespace

bool ConvolvesInBulk(const ConvCall& call, ConvMath math) {
  return (math == ConvMath::kF16 || math == ConvMath::kBF16) && call.groups == 1 &&
         FastActivation::Supports(call.epilogue.activation) &&
         reinterpret_cast<uintptr_t>(call.epilogue.bias) % 16 == 0 &&
         CanWalkInBulk(BulkProblem::Of(call, DTypeOf(math)));
}

void ConvolveInBulk(const Stream& stream, const ConvCall& call, ConvMath math,
                    const BulkConvKernel& kernel, bool overlap) {
  const BulkWalk walk =
      MakeBulkWalk(BulkProblem::Of(call, DTypeOf(math)), kernel.tile, kBoxRows, kMapBytes);
  const BulkConv conv = {walk, call.epilogue.bias, FastActivation::Of(call.epilogue)};

  KernelLaunch launch;
  launch.kernel = kernel.kernel;
  launch.blocks = dim3(static_cast<unsigned>(
      std::min(conv.tiles, TraitsOf(stream.device()).multiprocessors * kernel.resident)));
  launch.threads = static_cast<unsigned>(kernel.threads);
  launch.shared = static_cast<size_t>(kernel.shared_bytes);
  launch.overlap = overlap;
  Launch(stream, launch, &conv);
}

}  // namespace oort::cuda
