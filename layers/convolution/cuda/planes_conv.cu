// SPDX-License-Identifier: MIT
#include "layers/convolution/cuda/planes_conv.h"

#include <algorithm>

#include "cuda/epilogue.cuh"
#include "cuda/kernel_launch.h"
#include "oort/error.h"

namespace oort::cuda {
namespace {

constexpr int kPlanesThreads = 256;

template <typename T>
struct SumOf {
  using Type = float;
  __device__ static float From(T x) { return ToFloat(x); }
  __device__ static T To(float x) { return FromFloat<T>(x); }
};
template <>
struct SumOf<double> {
  using Type = double;
  __device__ static double From(double x) { return x; }
  __device__ static double To(double x) { return x; }
};

/// The input that tap `tap` of output `i` reads, or -1.
template <bool transposed>
__device__ int64_t InputAt(const PlaneWalk& walk, int64_t i, int64_t tap) {
  if constexpr (transposed) {
    const int64_t at = i + walk.pad - tap * walk.dilation;
    if (at < 0 || at % walk.stride != 0 || at / walk.stride >= walk.in) return -1;
    return at / walk.stride;
  } else {
    const int64_t at = i * walk.stride - walk.pad + tap * walk.dilation;
    return at < 0 || at >= walk.in ? -1 : at;
  }
}

template <typename T, bool transposed>
__global__ void __launch_bounds__(kPlanesThreads)
    PlanesConvKernel(const __grid_constant__ PlanesConvCall conv) {
  using Sum = SumOf<T>;
  LaunchDependents();
  WaitForPredecessor();
  const int64_t filters = conv.groups * conv.group_out;
  const int64_t out_plane = conv.depth.out * conv.height.out * conv.width.out;
  const int64_t in_plane = conv.depth.in * conv.height.in * conv.width.in;
  const int64_t taps = conv.depth.kernel * conv.height.kernel * conv.width.kernel;
  const int64_t all = conv.batch * filters * out_plane;
  // From channel to channel of a filter's weights.
  const int64_t channel_step = transposed ? conv.group_out * taps : taps;
  for (int64_t i = blockIdx.x * int64_t{kPlanesThreads} + threadIdx.x; i < all;
       i += int64_t{gridDim.x} * kPlanesThreads) {
    const int64_t pixel = i % out_plane, filter = i / out_plane % filters;
    const int64_t image = i / out_plane / filters, group = filter / conv.group_out;
    const int64_t x = pixel % conv.width.out, y = pixel / conv.width.out % conv.height.out;
    const int64_t z = pixel / conv.width.out / conv.height.out;
    const T* in =
        static_cast<const T*>(conv.in) + (image * conv.groups + group) * conv.group_in * in_plane;
    const T* weight =
        static_cast<const T*>(conv.weight) +
        (transposed ? (group * conv.group_in * conv.group_out + filter % conv.group_out) * taps
                    : filter * conv.group_in * taps);
    typename Sum::Type sum = 0;
    for (int64_t a = 0; a < conv.depth.kernel; ++a) {
      const int64_t from_z = InputAt<transposed>(conv.depth, z, a);
      if (from_z < 0) continue;
      for (int64_t b = 0; b < conv.height.kernel; ++b) {
        const int64_t from_y = InputAt<transposed>(conv.height, y, b);
        if (from_y < 0) continue;
        for (int64_t c = 0; c < conv.width.kernel; ++c) {
          const int64_t from_x = InputAt<transposed>(conv.width, x, c);
          if (from_x < 0) continue;
          const T* value = in + (from_z * conv.height.in + from_y) * conv.width.in + from_x;
          const T* factor = weight + (a * conv.height.kernel + b) * conv.width.kernel + c;
          for (int64_t k = 0; k < conv.group_in; ++k) {
            sum += Sum::From(value[k * in_plane]) * Sum::From(factor[k * channel_step]);
          }
        }
      }
    }
    if (conv.bias != nullptr) sum += Sum::From(static_cast<const T*>(conv.bias)[filter]);
    static_cast<T*>(conv.out)[i] = Sum::To(sum);
  }
}

template <typename T>
const void* PlanesKernel(bool transposed) {
  return transposed ? reinterpret_cast<const void*>(&PlanesConvKernel<T, true>)
                    : reinterpret_cast<const void*>(&PlanesConvKernel<T, false>);
}

const void* PlanesKernelOf(DType dtype, bool transposed) {
  if (dtype == DType::kF32) return PlanesKernel<float>(transposed);
  if (dtype == DType::kF16) return PlanesKernel<__half>(transposed);
  if (dtype == DType::kBF16) return PlanesKernel<__nv_bfloat16>(transposed);
  if (dtype == DType::kF64) return PlanesKernel<double>(transposed);
  throw Error(ErrorCode::kUnsupported, "expected floats, got " + std::string(Name(dtype)));
}

}  // namespace

void ConvolvePlanes(const Stream& stream, const PlanesConvCall& call, DType dtype) {
  const int64_t all =
      call.batch * call.groups * call.group_out * call.depth.out * call.height.out * call.width.out;
  if (all == 0) return;
  constexpr int64_t kMostBlocks = 1 << 20;
  KernelLaunch launch;
  launch.kernel = PlanesKernelOf(dtype, call.transposed);
  launch.blocks = dim3(
      static_cast<unsigned>(std::min(kMostBlocks, (all + kPlanesThreads - 1) / kPlanesThreads)));
  launch.threads = kPlanesThreads;
  launch.overlap = true;
  Launch(stream, launch, &call);
}

}  // namespace oort::cuda
