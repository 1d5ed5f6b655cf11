// SPDX-License-Identifier: MIT
#pragma once

#include <cuda_bf16.h>

#include "layers/experts/cuda/split_rows.h"

namespace oort::cuda {

/// The bf16 number nearest to what is left of `rest`, which keeps what that leaves.
__device__ __forceinline__ __nv_bfloat16 TakePart(float& rest) {
  const __nv_bfloat16 part = __float2bfloat16_rn(rest);
  rest -= __bfloat162float(part);
  return part;
}

}  // namespace oort::cuda
