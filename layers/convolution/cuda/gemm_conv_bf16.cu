// SPDX-License-Identifier: MIT
#include "layers/convolution/cuda/gemm_conv_table.cuh"

namespace oort::cuda {

std::span<const GemmConvKernel> GemmConvKernelsBF16() {
  return TensorCoreKernels<ConvMath::kBF16>();
}

}  // namespace oort::cuda
