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

/// A row becomes such parts, with zeros behind it: the work of thread `own` of `threads`.
__device__ __forceinline__ void SplitNumbers(const float* from, int columns, int planes,
                                             __nv_bfloat16* to, int own, int threads) {
  const int padded = static_cast<int>(SplitColumns(columns));
#pragma unroll 4
  for (int at = own * 2; at < padded; at += threads * 2) {
    float a = at < columns ? from[at] : 0.0f, b = at + 1 < columns ? from[at + 1] : 0.0f;
    for (int plane = 0; plane < planes; ++plane) {
      const __nv_bfloat16 first = TakePart(a);
      *reinterpret_cast<__nv_bfloat162*>(to + SplitPlace(at, plane, planes)) =
          __nv_bfloat162(first, TakePart(b));
    }
  }
}

}  // namespace oort::cuda
