// SPDX-License-Identifier: MIT
#include "layers/vision/device_grid.h"

#include "cuda/launch.h"

namespace oort {
namespace {

/// A thread has one sample of some channels.
template <typename Real, GridMode mode, bool volume>
__global__ void SampleGrid(const __grid_constant__ DeviceGrid call, const Real* input,
                           const Real* grid, Real* output) {
  const GridGeometry& g = call.geometry;
  const int64_t at = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (at >= g.batch * g.samples) return;
  const int64_t image = at / g.samples, sample = at % g.samples;
  const Real* point = grid + at * (volume ? 3 : 2);
  const auto axis = [&](int i) {
    return GridAxis<Real>(g.extents[i], call.align_corners, call.padding, volume);
  };
  const auto columns = axis(2).template Taps<mode>(point[0]);
  const auto rows = axis(1).template Taps<mode>(point[1]);
  const auto layers = axis(0).template Taps<mode>(volume ? point[volume ? 2 : 0] : Real(0));
  for (int64_t c = blockIdx.y; c < g.channels; c += gridDim.y) {
    const Real* plane = input + (image * g.channels + c) * g.plane();
    Real sum = 0;
    for (const auto& z : layers) {
      for (const auto& y : rows) {
        for (const auto& x : columns) {
          const bool outside = (volume && z.index < 0) || y.index < 0 || x.index < 0;
          // In a volume, what lies outside adds nothing, even where its weight is NaN.
          if (volume && outside) continue;
          const int64_t line = (volume ? z.index * g.extents[1] : 0) + y.index;
          const Real value = outside ? Real(0) : plane[line * g.extents[2] + x.index];
          sum += value * (volume ? z.weight * y.weight * x.weight : y.weight * x.weight);
        }
      }
      if (!volume) break;
    }
    output[(image * g.channels + c) * g.samples + sample] = sum;
  }
}

template <typename Real, GridMode mode, bool volume>
void StartGrid(cuda::Stream& stream, const DeviceGrid& call, const Tensor& input,
               const Tensor& grid, Tensor& output) {
  constexpr int kThreads = 128;
  constexpr int64_t kMostRows = 1024;
  const GridGeometry& g = call.geometry;
  const dim3 blocks(cuda::BlocksFor(g.batch * g.samples, kThreads),
                    static_cast<unsigned>(std::min(g.channels, kMostRows)));
  cuda::Launch(stream, {blocks, dim3(kThreads)}, &SampleGrid<Real, mode, volume>, call,
               input.data<Real>(), grid.data<Real>(), output.data<Real>());
}

template <typename Real>
void StartGridOf(cuda::Stream& stream, const DeviceGrid& call, const Tensor& input,
                 const Tensor& grid, Tensor& output) {
  if (call.mode == GridMode::kCubic) {
    return StartGrid<Real, GridMode::kCubic, false>(stream, call, input, grid, output);
  }
  const bool nearest = call.mode == GridMode::kNearest;
  const auto start = call.volume ? (nearest ? &StartGrid<Real, GridMode::kNearest, true>
                                            : &StartGrid<Real, GridMode::kLinear, true>)
                                 : (nearest ? &StartGrid<Real, GridMode::kNearest, false>
                                            : &StartGrid<Real, GridMode::kLinear, false>);
  start(stream, call, input, grid, output);
}

}  // namespace

void GridSampleOnDevice(cuda::Stream& stream, const DeviceGrid& call, const Tensor& input,
                        const Tensor& grid, Tensor& output) {
  if (output.dtype() == DType::kF64) {
    StartGridOf<double>(stream, call, input, grid, output);
  } else {
    StartGridOf<float>(stream, call, input, grid, output);
  }
}

}  // namespace oort
