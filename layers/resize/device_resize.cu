// SPDX-License-Identifier: MIT
#include "layers/resize/device_resize.h"

#include "cuda/elements.h"
#include "cuda/launch.h"

namespace oort {
namespace {

constexpr int kResizeThreads = 256;

template <typename Real>
struct DeviceResizeAxis {
  int64_t in, out;
  Real step;
};

/// The three axes of a plane, outermost first.
template <typename Real>
struct DeviceResize {
  DeviceResizeAxis<Real> axes[3];
  bool align_corners;
};

template <typename Real>
DeviceResize<Real> ResizeOf(const ResizeGeometry& geometry, bool align_corners) {
  DeviceResize<Real> resize{};
  resize.align_corners = align_corners;
  for (size_t i = 0; i < 3; ++i) {
    const ResizeAxis& axis = geometry.axes[i];
    resize.axes[i] = {axis.in, axis.out, CoordinateStep<Real>(axis, align_corners)};
  }
  return resize;
}

template <typename Real>
__device__ int64_t NearestAt(const DeviceResizeAxis<Real>& axis, int64_t i, Real shift) {
  const Real at = floor((static_cast<Real>(i) + shift) * axis.step);
  const int64_t index = static_cast<int64_t>(at);
  return index < axis.in - 1 ? index : axis.in - 1;
}

template <typename T, typename Real>
__global__ void NearestKernel(const T* x, T* y, int64_t total, const DeviceResize<Real> resize,
                              Real shift) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  const auto &depth = resize.axes[0], &height = resize.axes[1], &width = resize.axes[2];
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < total; i += step) {
    const int64_t w = NearestAt(width, i % width.out, shift), rows = i / width.out;
    const int64_t h = NearestAt(height, rows % height.out, shift), planes = rows / height.out;
    const int64_t d = NearestAt(depth, planes % depth.out, shift);
    y[i] = x[((planes / depth.out * depth.in + d) * height.in + h) * width.in + w];
  }
}

/// Up to four inputs and their weights.
template <typename Real>
struct Taps {
  int count;
  int64_t index[4];
  Real weight[4];
};

template <typename Real>
__device__ Taps<Real> TapsAt(const DeviceResizeAxis<Real>& axis, int64_t i, bool cubic,
                             bool align_corners) {
  Taps<Real> taps{};
  if (axis.in == 1 && axis.out == 1) {
    taps.count = 1;
    taps.weight[0] = 1;
    return taps;
  }
  const auto clamped = [&](int64_t at) {
    return at < 0 ? int64_t{0} : at > axis.in - 1 ? axis.in - 1 : at;
  };
  const Real half = Real(0.5), zero = Real(0), one = Real(1);
  Real at = align_corners ? axis.step * static_cast<Real>(i)
                          : axis.step * (static_cast<Real>(i) + half) - half;
  if (!cubic) at = axis.in == axis.out ? static_cast<Real>(i) : max(at, zero);
  const int64_t first = min(static_cast<int64_t>(floor(at)), axis.in - 1);
  const Real t = min(max(at - static_cast<Real>(first), zero), one);
  if (!cubic) {
    taps.count = 2;
    taps.index[0] = clamped(first);
    taps.index[1] = clamped(first + 1);
    taps.weight[0] = one - t;
    taps.weight[1] = t;
    return taps;
  }
  taps.count = 4;
  const Real a = Real(-0.75);
  const auto near = [&](Real x) { return ((a + 2) * x - (a + 3)) * x * x + 1; };
  const auto far = [&](Real x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
  taps.weight[0] = far(t + 1);
  taps.weight[1] = near(t);
  taps.weight[2] = near(1 - t);
  taps.weight[3] = far(2 - t);
  for (int tap = 0; tap < 4; ++tap) taps.index[tap] = clamped(first - 1 + tap);
  return taps;
}

template <typename T, typename Real>
__global__ void BlendKernel(const T* x, T* y, int64_t total, const DeviceResize<Real> resize,
                            bool cubic) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  const auto &depth = resize.axes[0], &height = resize.axes[1], &width = resize.axes[2];
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < total; i += step) {
    const int64_t rows = i / width.out, planes = rows / height.out;
    const Taps<Real> w = TapsAt(width, i % width.out, cubic, resize.align_corners);
    const Taps<Real> h = TapsAt(height, rows % height.out, cubic, resize.align_corners);
    const Taps<Real> d = TapsAt(depth, planes % depth.out, cubic, resize.align_corners);
    const T* const plane = x + planes / depth.out * depth.in * height.in * width.in;
    Real sum = 0;
    for (int a = 0; a < d.count; ++a) {
      for (int b = 0; b < h.count; ++b) {
        const T* const row = plane + (d.index[a] * height.in + h.index[b]) * width.in;
        Real along = 0;
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          if (c < w.count) along += static_cast<Real>(cuda::Widen(row[w.index[c]])) * w.weight[c];
        }
        sum += along * d.weight[a] * h.weight[b];
      }
    }
    cuda::Narrow(y[i], sum);
  }
}

template <typename T>
void StartNearest(cuda::Stream& stream, const ResizeGeometry& geometry, bool exact, bool wide,
                  const Tensor& x, Tensor& y) {
  const cuda::Grid grid{dim3(cuda::BlocksFor(y.elements(), kResizeThreads, 1, 132 * 64)),
                        dim3(kResizeThreads)};
  const T* const from = reinterpret_cast<const T*>(x.raw());
  T* const to = reinterpret_cast<T*>(y.raw());
  if (wide) {
    cuda::Launch(stream, grid, &NearestKernel<T, double>, from, to, y.elements(),
                 ResizeOf<double>(geometry, false), exact ? 0.5 : 0.0);
  } else {
    cuda::Launch(stream, grid, &NearestKernel<T, float>, from, to, y.elements(),
                 ResizeOf<float>(geometry, false), exact ? 0.5f : 0.0f);
  }
}

}  // namespace

void ResizeOnDevice(cuda::Stream& stream, const ResizeGeometry& geometry, ResizeMode mode,
                    bool align_corners, const Tensor& x, Tensor& y) {
  if (mode == ResizeMode::kNearest || mode == ResizeMode::kNearestExact) {
    const bool exact = mode == ResizeMode::kNearestExact, wide = x.dtype() == DType::kF64;
    switch (ItemSize(x.dtype())) {
      case 1: return StartNearest<uint8_t>(stream, geometry, exact, wide, x, y);
      case 2: return StartNearest<uint16_t>(stream, geometry, exact, wide, x, y);
      case 4: return StartNearest<uint32_t>(stream, geometry, exact, wide, x, y);
      default: return StartNearest<uint64_t>(stream, geometry, exact, wide, x, y);
    }
  }
  const bool cubic = mode == ResizeMode::kCubic;
  cuda::VisitFloat(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::Type;
    using Real = typename cuda::SumOf<T>::Type;
    cuda::Launch(
        stream,
        {dim3(cuda::BlocksFor(y.elements(), kResizeThreads, 1, 132 * 64)), dim3(kResizeThreads)},
        &BlendKernel<T, Real>, reinterpret_cast<const T*>(x.raw()), reinterpret_cast<T*>(y.raw()),
        y.elements(), ResizeOf<Real>(geometry, align_corners), cubic);
  });
}

}  // namespace oort
