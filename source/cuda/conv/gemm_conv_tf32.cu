// SPDX-License-Identifier: MIT
#include "cuda/conv/gemm_conv_table.cuh"

namespace oort::cuda {

std::span<const GemmConvKernel> GemmConvKernelsTF32() {
  return TensorCoreKernels<ConvMath::kTF32>();
}

}  // namespace oort::cuda
