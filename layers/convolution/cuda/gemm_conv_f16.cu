// SPDX-License-Identifier: MIT
#include "layers/convolution/cuda/gemm_conv_table.cuh"

namespace oort::cuda {

std::span<const GemmConvKernel> GemmConvKernelsF16() { return TensorCoreKernels<ConvMath::kF16>(); }

}  // namespace oort::cuda
