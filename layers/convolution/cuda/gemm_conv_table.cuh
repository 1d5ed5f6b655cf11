// SPDX-License-Identifier: MIT
#pragma once

#include "layers/convolution/cuda/gemm_conv.h"
#include "layers/convolution/cuda/implicit_gemm.cuh"

namespace oort::cuda {

template <ConvMath math, typename Shape, int grain>
const void* ConvolveTileFunction() {
  if constexpr (ItemSize(math) == 4 && grain == 8) {
    return nullptr;  // the one for 4 bytes serves
  } else {
    return reinterpret_cast<const void*>(&ConvolveTile<math, Shape, grain>);
  }
}

template <ConvMath math, typename Shape, bool small_grains>
GemmConvKernel MakeGemmConvKernel() {
  GemmConvKernel made = {{Shape::kRows, Shape::kColumns},
                         Shape::kThreads,
                         Shape::kStages,
                         Shape::kStageBytes,
                         Shape::kSumBytes,
                         {}};
  made.kernels[0] = ConvolveTileFunction<math, Shape, 16>();
  if constexpr (small_grains) {
    made.kernels[1] = ConvolveTileFunction<math, Shape, 8>();
    made.kernels[2] = ConvolveTileFunction<math, Shape, 4>();
  }
  return made;
}

/// The shapes for tensor cores. 256 by 128, and 128 by 128 with 4 warps, are not among them: of
/// 128 by 128 with 8 warps two blocks fit on a multiprocessor, for which ModelCycles counts less in
/// every problem.
template <ConvMath math>
std::span<const GemmConvKernel> TensorCoreKernels() {
  static const GemmConvKernel kKernels[] = {
      MakeGemmConvKernel<math, BlockShape<128, 64, 64, 32, 4>, true>(),
      MakeGemmConvKernel<math, BlockShape<64, 128, 32, 64, 4>, false>(),
      MakeGemmConvKernel<math, BlockShape<64, 64, 32, 32, 4>, true>(),
      MakeGemmConvKernel<math, BlockShape<64, 32, 32, 16, 6>, true>(),
      MakeGemmConvKernel<math, BlockShape<32, 64, 16, 32, 6>, false>(),
      MakeGemmConvKernel<math, BlockShape<32, 32, 16, 16, 6>, false>(),
      MakeGemmConvKernel<math, BlockShape<128, 128, 64, 32, 3>, false>(),
      MakeGemmConvKernel<math, BlockShape<128, 64, 64, 32, 3, true>, false>(),
      MakeGemmConvKernel<math, BlockShape<128, 64, 32, 32, 4>, false>(),
  };
  return kKernels;
}

}  // namespace oort::cuda
