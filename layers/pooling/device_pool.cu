// SPDX-License-Identifier: MIT
#include "layers/pooling/device_pool.h"

#include "cuda/elements.h"
#include "cuda/launch.h"

namespace oort {
namespace {

struct PoolRange {
  int64_t begin, count, step;
  int64_t divisor;  // of this axis, for means
};

__device__ PoolRange RangeAt(const DevicePool::Axis& axis, int64_t i, bool include_pad) {
  const WindowAxis& w = axis.window;
  if (axis.adaptive) {
    const int64_t begin = i * w.in / w.out, end = ((i + 1) * w.in + w.out - 1) / w.out;
    return {begin, end - begin, 1, end - begin};
  }
  const WindowAxis::Taps taps = w.At(i);
  return {taps.begin, taps.count, w.dilation, include_pad ? w.PaddedCount(i) : taps.count};
}

/// A thread for each window.
template <typename T>
__global__ void PoolKernel(const T* x, T* y, int64_t* indices, int64_t total,
                           const __grid_constant__ DevicePool pool) {
  using A = typename cuda::SumOf<T>::Type;
  const WindowAxis &d_axis = pool.axes[0].window, &h_axis = pool.axes[1].window,
                   &w_axis = pool.axes[2].window;
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < total; i += step) {
    int64_t rest = i;
    const PoolRange width = RangeAt(pool.axes[2], rest % w_axis.out, pool.include_pad);
    rest /= w_axis.out;
    const PoolRange height = RangeAt(pool.axes[1], rest % h_axis.out, pool.include_pad);
    rest /= h_axis.out;
    const PoolRange depth = RangeAt(pool.axes[0], rest % d_axis.out, pool.include_pad);
    const T* const plane = x + rest / d_axis.out * d_axis.in * h_axis.in * w_axis.in;
    A best = -INFINITY, sum = 0;
    int64_t where = (depth.begin * h_axis.in + height.begin) * w_axis.in + width.begin;
    for (int64_t d = 0; d < depth.count; ++d) {
      for (int64_t h = 0; h < height.count; ++h) {
        const int64_t row =
            ((depth.begin + d * depth.step) * h_axis.in + height.begin + h * height.step) *
                w_axis.in +
            width.begin;
        for (int64_t w = 0; w < width.count; ++w) {
          const A value = cuda::Widen(plane[row + w * width.step]);
          sum += value;
          if (value > best || value != value) {
            best = value;
            where = row + w * width.step;
          }
        }
      }
    }
    if (pool.largest) {
      cuda::Narrow(y[i], best);
      if (indices != nullptr) indices[i] = where;
    } else {
      const int64_t divisor = pool.override_with != 0
                                  ? pool.override_with
                                  : depth.divisor * height.divisor * width.divisor;
      cuda::Narrow(y[i], sum / static_cast<A>(divisor));
    }
  }
}

}  // namespace

void PoolOnDevice(cuda::Stream& stream, const DevicePool& pool, const Tensor& x, Tensor& y,
                  Tensor* indices) {
  cuda::VisitFloat(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    constexpr int kThreads = 256;
    cuda::Launch(stream,
                 {dim3(cuda::BlocksFor(y.elements(), kThreads, 1, 132 * 64)), dim3(kThreads)},
                 &PoolKernel<T>, reinterpret_cast<const T*>(x.raw()), reinterpret_cast<T*>(y.raw()),
                 indices != nullptr ? reinterpret_cast<int64_t*>(indices->raw()) : nullptr,
                 y.elements(), pool);
  });
}

}  // namespace oort
