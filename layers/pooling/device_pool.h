// SPDX-License-Identifier: MIT
#pragma once

#include "layers/device_kernel.h"
#include "layers/pooling/adaptive.h"
#include "layers/pooling/pool_divisor.h"

namespace oort {

/// Windows of planes, sliding or adaptive.
struct DevicePool {
  struct Axis {
    WindowAxis window;
    bool adaptive = false;  ///< only `in` and `out` of the window count
  };
  Axis axes[3];
  int64_t planes = 0;
  bool largest = false;  ///< else the mean
  bool include_pad = false;
  int64_t override_with = 0;

  DevicePool(const PoolGeometry& geometry, bool max) : planes(geometry.planes), largest(max) {
    for (size_t i = 0; i < 3; ++i) axes[i] = {geometry.window[i], false};
  }
  DevicePool(const AdaptiveGeometry& geometry, bool max) : planes(geometry.planes), largest(max) {
    for (size_t i = 0; i < 3; ++i) {
      axes[i].window.in = geometry.axes[i].in;
      axes[i].window.out = geometry.axes[i].out;
      axes[i].adaptive = true;
    }
  }
};

/// Floats of any kind; `indices` (i64, places in the plane) may be null.
void PoolOnDevice(cuda::Stream&, const DevicePool&, const Tensor& x, Tensor& y,
                  Tensor* indices) OORT_CUDA_ONLY;

}  // namespace oort
