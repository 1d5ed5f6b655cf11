// SPDX-License-Identifier: MIT
#pragma once

#include "layers/device_kernel.h"

namespace oort {

/// `rows` runs of `count` elements, each of which gets mean 0 (unless `rms`) and variance 1.
/// Element i of row r is then multiplied and moved by weight and bias number (r % groups) * (count
/// / inner) + i / inner.
struct NormRows {
  int64_t rows, count;
  int64_t groups = 1, inner = 1;
  double eps;
  bool rms = false;
};

/// Weight and bias are both of f32 or both of f64 and on the device, or undefined.
void NormalizeRowsOnDevice(cuda::Stream&, const Tensor& x, Tensor& y, const NormRows&,
                           const Tensor& weight, const Tensor& bias) OORT_CUDA_ONLY;

/// y = (x - center) * scale + shift by channel, for an input of (outer, channels, inner); the three
/// stand one after the other in `affine`, f64 and on the device.
void ApplyChannelsOnDevice(cuda::Stream&, const Tensor& x, Tensor& y, int64_t channels,
                           int64_t inner, const Tensor& affine) OORT_CUDA_ONLY;

}  // namespace oort
