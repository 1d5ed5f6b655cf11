// SPDX-License-Identifier: MIT
// Any convolution: each thread computes one output.
#include "cuda/kernel_launch.h"
#include "layers/convolution/cuda/warp_tile.cuh"

namespace oort::cuda {
namespace {

template <typename T>
__global__ void __launch_bounds__(256) PlainConvKernel(const __grid_constant__ ConvCall conv) {
  LaunchDependents();
  WaitForPredecessor();
  const int64_t filters = int64_t{conv.filters} * conv.groups;
  const int64_t all = conv.rows() * filters;
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < all;
       i += int64_t{gridDim.x} * blockDim.x) {
    const int64_t filter = i % filters, row = i / filters;
    const int64_t x = row % conv.width.out, y = row / conv.width.out % conv.height.out;
    const int64_t image = row / conv.width.out / conv.height.out;
    const T* weight = static_cast<const T*>(conv.weight) + filter * conv.depth;
    const T* in = static_cast<const T*>(conv.in) + filter / conv.filters * conv.channels;
    float sum = 0;
    for (int64_t r = 0; r < conv.height.kernel; ++r) {
      const int64_t down = y * conv.height.stride - conv.height.pad + r * conv.height.dilation;
      if (down < 0 || down >= conv.height.in) continue;
      for (int64_t s = 0; s < conv.width.kernel; ++s) {
        const int64_t along = x * conv.width.stride - conv.width.pad + s * conv.width.dilation;
        if (along < 0 || along >= conv.width.in) continue;
        const T* pixel =
            in + ((image * conv.height.in + down) * conv.width.in + along) * conv.in_pixel;
        const T* tap = weight + (r * conv.width.kernel + s) * conv.channels;
        for (int c = 0; c < conv.channels; ++c) sum = fmaf(ToFloat(pixel[c]), ToFloat(tap[c]), sum);
      }
    }
    const Epilogue& epilogue = conv.epilogue;
    const int64_t place = row * conv.out_pixel + filter;
    if (epilogue.bias != nullptr) sum += epilogue.bias[filter];
    if (epilogue.addend != nullptr) sum += ToFloat(static_cast<const T*>(epilogue.addend)[place]);
    static_cast<T*>(conv.out)[place] =
        FromFloat<T>(Activate(epilogue.activation, epilogue.a, epilogue.b, sum));
  }
}

}  // namespace

void ConvolvePlain(const Stream& stream, const ConvCall& call, ConvMath math, bool overlap) {
  constexpr int64_t kThreads = 256, kMostBlocks = 1 << 20;
  const int64_t all = call.rows() * call.filters * call.groups;
  const int64_t blocks = (all + kThreads - 1) / kThreads;
  KernelLaunch launch;
  launch.kernel = math == ConvMath::kF16 ? reinterpret_cast<const void*>(&PlainConvKernel<__half>)
                  : math == ConvMath::kBF16
                      ? reinterpret_cast<const void*>(&PlainConvKernel<__nv_bfloat16>)
                      : reinterpret_cast<const void*>(&PlainConvKernel<float>);
  launch.blocks = dim3(static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks));
  launch.threads = kThreads;
  launch.overlap = overlap;
  Launch(stream, launch, &call);
}

}  // namespace oort::cuda
