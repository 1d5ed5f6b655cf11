// SPDX-License-Identifier: MIT
#include "layers/convolution/cuda/gemm_conv_table.cuh"

namespace oort::cuda {

std::span<const GemmConvKernel> GemmConvKernelsTF32() {
  return TensorCoreKernels<ConvMath::kTF32>();
}

}  // namespace oort::cuda
