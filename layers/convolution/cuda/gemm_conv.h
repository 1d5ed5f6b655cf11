// SPDX-License-Identifier: MIT
// The compiled kernels of implicit_gemm.cuh.
#pragma once

#include <array>
#include <span>

#include "layers/convolution/cuda/conv.h"

namespace oort::cuda {

/// Bytes that copies of images are made of: the first is for channels in multiples of 16 bytes.
inline constexpr std::array<int, 3> kConvGrains = {16, 8, 4};

struct GemmConvKernel {
  ConvTile tile;
  int threads, stages, stage_bytes, sum_bytes;
  std::array<const void*, 3> kernels;  ///< by grain; null where there is none
};

std::span<const GemmConvKernel> GemmConvKernelsF32();
std::span<const GemmConvKernel> GemmConvKernelsTF32();
std::span<const GemmConvKernel> GemmConvKernelsF16();
std::span<const GemmConvKernel> GemmConvKernelsBF16();

}  // namespace oort::cuda
