// SPDX-License-Identifier: MIT
#pragma once

#include "layers/device_kernel.h"

namespace oort {

/// An input as (outer, extent, inner), normalized along the middle axis.
struct SoftmaxView {
  int64_t outer, extent, inner;
  bool log;
  float sign;  ///< of the input
};

/// softmax(sign * x), or its logarithm, of any float dtype into any other.
void SoftmaxOnDevice(cuda::Stream&, const Tensor& x, Tensor& y, const SoftmaxView&) OORT_CUDA_ONLY;

}  // namespace oort
