// SPDX-License-Identifier: MIT
#pragma once

#include "layers/device_kernel.h"
#include "layers/vision/grid_axis.h"

namespace oort {

struct GridGeometry {
  int64_t batch = 0, channels = 0, samples = 0;  ///< samples of one image
  std::array<int64_t, 3> extents{1, 1, 1};       ///< of the input: depth, height, width
  OORT_HOST_DEVICE int64_t plane() const { return extents[0] * extents[1] * extents[2]; }
};

struct DeviceGrid {
  GridGeometry geometry;
  GridMode mode = GridMode::kLinear;
  GridPadding padding = GridPadding::kZeros;
  bool align_corners = false, volume = false;
};
/// F.grid_sample of f32 or f64.
void GridSampleOnDevice(cuda::Stream&, const DeviceGrid&, const Tensor& input, const Tensor& grid,
                        Tensor& output) OORT_CUDA_ONLY;

}  // namespace oort
