// SPDX-License-Identifier: MIT
#include "layers/convolution/cuda/gemm_conv_table.cuh"

namespace oort::cuda {

std::span<const GemmConvKernel> GemmConvKernelsF32() {
  // Larger tiles have so many registers that ModelCycles counts more for every problem.
  constexpr ConvMath kMath = ConvMath::kF32;
  static const GemmConvKernel kKernels[] = {
      MakeGemmConvKernel<kMath, BlockShape<64, 64, 32, 32, 4>, true>(),
      MakeGemmConvKernel<kMath, BlockShape<64, 32, 32, 16, 4>, true>(),
      MakeGemmConvKernel<kMath, BlockShape<32, 32, 16, 16, 6>, true>(),
  };
  return kKernels;
}

}  // namespace oort::cuda
