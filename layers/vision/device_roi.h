// SPDX-License-Identifier: MIT
#pragma once

#include "layers/device_kernel.h"

namespace oort {

/// What RoIAlign does with boxes, as in roi_align.cpp.
struct DeviceRoi {
  double scale = 1;
  int64_t samples = 0;  ///< of a bin along an axis; none or less for about one an element
  bool aligned = false, position_sensitive = false;
};
/// Of f32 or f64. A box in an image that is not there gives zeros.
void RoiAlignOnDevice(cuda::Stream&, const DeviceRoi&, const Tensor& input, const Tensor& boxes,
                      Tensor& output) OORT_CUDA_ONLY;
/// Of a result (K, C, H, W), which channel each element was taken from.
void RoiChannelsOnDevice(cuda::Stream&, Tensor& channels) OORT_CUDA_ONLY;

}  // namespace oort
