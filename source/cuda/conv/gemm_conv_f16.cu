// SPDX-License-Identifier: MIT
#include "cuda/conv/gemm_conv_table.cuh"

namespace oort::cuda {

std::span<const GemmConvKernel> GemmConvKernelsF16() { return TensorCoreKernels<ConvMath::kF16>(); }

}  // namespace oort::cuda
