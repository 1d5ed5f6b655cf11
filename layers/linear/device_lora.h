// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "layers/device_kernel.h"

namespace oort {

/// Adapters whose matrices stand one below the other; everything is in the GPU's memory.
struct LoraOnDevice {
  const float *down, *up;  ///< (ranks, inputs) and (ranks, outputs)
  const int64_t* parts;    ///< of each adapter its first row of down and up, and how many it has
  int64_t adapters, most_rank;
  int64_t inputs, outputs;
};

/// out = base + input down_a^T up_a, where a is the adapter of a row (`row_adapters`; below 0:
/// none). `factors` is scratch of rows x most_rank. A row has the same bits whatever stands beside
/// it.
void AddLoraOnDevice(cuda::Stream&, const LoraOnDevice&, const int32_t* row_adapters,
                     const Tensor& base, const Tensor& input, float* factors,
                     Tensor& out) OORT_CUDA_ONLY;

}  // namespace oort
