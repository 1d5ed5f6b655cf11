// SPDX-License-Identifier: MIT
// Which tokens of its sequence one sees. For .cu files.
#pragma once

#include "layers/attention/paged/cuda/device_paged_attention.h"

namespace oort::cuda {

/// The first one.
__device__ __forceinline__ int FirstSeen(const AttentionArgs& a, int token) {
  if (a.window == 0) return 0;
  return a.chunked ? token / a.window * a.window : max(0, token + 1 - a.window);
}

}  // namespace oort::cuda
