// SPDX-License-Identifier: MIT
#include "layers/quantize/cuda/byte_bulk.h"

#include <algorithm>

#include "cuda/kernel_launch.h"
#include "cuda/tensor_map.h"
#include "layers/convolution/cuda/bulk_walk.h"

namespace oort::cuda {
namespace {

BulkProblem ProblemOf(const ByteConvCall& call) {
  BulkProblem problem = BulkProblem::Of(call, DType::kU8);
  problem.weight_rows = call.padded_filters();  // the last ones are spread over a whole group
  return problem;
}

}  // namespace

bool ConvolvesBytesInBulk(const ByteConvCall& call, const ByteBulkKernel& kernel) {
  // Shorter steps are for few channels, which would fill half of the longer ones.
  const bool few = call.channels <= kMapBytes / 2;
  return few == (kernel.step_bytes < kMapBytes) && call.groups == 1 && !call.in_signed &&
         call.epilogue.bytes && !call.epilogue.activated && call.padding.zero_point == 0 &&
         CanWalkInBulk(ProblemOf(call));
}

void ConvolveBytesInBulk(const Stream& stream, const ByteConvCall& call,
                         const ByteBulkKernel& kernel, bool overlap) {
  const ByteEpilogue& epilogue = call.epilogue;
  ByteBulk conv = {};
  static_cast<BulkWalk&>(conv) =
      MakeBulkWalk(ProblemOf(call), kernel.tile, kernel.tile.rows, kernel.step_bytes);
  conv.scale = epilogue.scale;
  conv.bias = epilogue.bias;
  conv.starts = epilogue.starts;
  conv.rounding = ByteRounding::Of(epilogue);
  conv.addend_scale = epilogue.addend_scale;
  conv.addend_flip = epilogue.addend_signed ? kSignBits : 0;
  conv.addend_origin = epilogue.addend_signed ? (1 << 23) + 128.0f : 1 << 23;

  KernelLaunch launch;
  launch.kernel = kernel.kernel;
  launch.blocks =
      dim3(static_cast<unsigned>(std::min(conv.tiles, TraitsOf(stream.device()).multiprocessors)));
  launch.threads = static_cast<unsigned>(kernel.threads);
  launch.shared = static_cast<size_t>(kernel.shared_bytes);
  launch.overlap = overlap;
  Launch(stream, launch, &conv);
}

}  // namespace oort::cuda
