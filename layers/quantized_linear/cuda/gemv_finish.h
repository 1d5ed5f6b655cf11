// SPDX-License-Identifier: MIT
// The finisher of a warp-specialized GEMV: it sums up what the workers have of a strip and writes
// the results. For the kernels of gemv*.cu alone.
#pragma once

#include "layers/quantized_linear/cuda/gemv_roles.h"
#include "layers/quantized_linear/cuda/row_activation.h"

namespace oort::cuda::gemv {

/// Where the result of a row of a strip goes.
struct Target {
  float* y = nullptr;             ///< of the first row of x; null for rows that only fill a strip
  const float* addend = nullptr;  ///< likewise
  int rows = 0;                   ///< from one row of x to the next

  /// r: of the strip.
  __device__ __forceinline__ Target(const GemvProduct& p, int strip, int r) {
    if (p.gated) {
      // Eight rows of a strip are the gates of the other eight.
      rows = p.part_rows[0];
      if (r < 8 && strip * 8 + r < rows) y = p.y[0] + strip * 8 + r;
      return;
    }
    int row = strip * kStripRows + r, part = 0;
#pragma unroll
    for (int i = 0; i + 1 < kMostProducts; ++i) {
      const int whole = (p.part_rows[i] + kStripRows - 1) / kStripRows * kStripRows;
      if (part == i && i + 1 < p.parts && row >= whole) {
        row -= whole;
        ++part;
      }
    }
    rows = part == 0 ? p.part_rows[0] : part == 1 ? p.part_rows[1] : p.part_rows[2];
    if (row >= rows) return;
    y = (part == 0 ? p.y[0] : part == 1 ? p.y[1] : p.y[2]) + row;
    if (part == 0 && p.addend != nullptr) addend = p.addend + row;
  }
};

/// What half of the workers have of a result: the sum of four of them, and that of four more.
/// `from` is what the first one has.
template <int kWarpSums>
__device__ __forceinline__ float SumHalf(const float* from) {
  constexpr int kQuarter = kWorkers / 4;
  float first = 0, last = 0;
#pragma unroll
  for (int i = 0; i < kQuarter; ++i) {
    first += from[i * kWarpSums];
    last += from[(i + kQuarter) * kWarpSums];
  }
  return first + last;
}
/// The result of a row of a strip for one row of x, before norm and bias.
template <int kWarpSums>
__device__ __forceinline__ float SumWorkers(const float* from) {
  return SumHalf<kWarpSums>(from) + SumHalf<kWarpSums>(from + kWorkers / 2 * kWarpSums);
}

/// What a row of x is multiplied by behind the product, by the sums of squares of its pieces.
__device__ __forceinline__ float NormOf(const GemvProduct& p, const float* squares) {
  if (p.gain == nullptr) return 1.0f;
  float sum = 0;
  const int pieces = PiecesOf(p);
  for (int i = 0; i < pieces; ++i) sum += squares[i];
  return rsqrtf(sum / static_cast<float>(p.columns) + p.epsilon);
}

/// What comes behind the product. For whole warps: gates are eight lanes in front of what they
/// gate.
__device__ __forceinline__ float FinishResult(const GemvProduct& p, float value, float addend) {
  if (!p.gated) return Activate(p.activation, value + addend);
  const float up = __shfl_down_sync(~0u, value, 8);
  return Activate(p.activation, value) * up;
}

/// kWarpSums: what each worker has of a strip. Half a warp has the 16 rows of the strip for one row
/// of x. A single row of x is shared by both halves, which take half of the workers each.
template <int kWarpSums, bool kSingle>
__device__ __forceinline__ void FinishStrips(const GemvProduct& p, const Handover& handover,
                                             const float* norm) {
  constexpr int kPairs = kSingle ? 1 : (kWarpSums / kStripRows + 1) / 2;  // of rows of x
  const int lane = threadIdx.x % 32, r = lane % 16;
  const float first_norm = norm[0];
  Turn buffer;
  for (int strip = blockIdx.x; strip < p.weights.strips; strip += static_cast<int>(gridDim.x)) {
    // Loads all that is known while the workers multiply.
    const Target target(p, strip, r);
    const float bias = p.bias != nullptr ? p.bias[strip * kStripRows + r] : 0.0f;
    float addends[kPairs] = {};
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const int token = kSingle ? 0 : 2 * i + lane / 16;
      if (target.addend != nullptr && token < p.rows) {
        addends[i] = target.addend[static_cast<int64_t>(token) * target.rows];
      }
    }
    handover.WaitFilled(buffer);
    const float* sums = handover.sums + buffer.place * kWorkers * kWarpSums + r;
    if constexpr (kSingle) {
      float value = SumHalf<kWarpSums>(sums + lane / 16 * (kWorkers / 2) * kWarpSums);
      value += __shfl_xor_sync(~0u, value, 16);
      value = FinishResult(p, fmaf(value, first_norm, bias), addends[0]);
      if (lane < 16 && target.y != nullptr) *target.y = value;
    } else {
#pragma unroll
      for (int i = 0; i < kPairs; ++i) {
        if (2 * i >= p.rows) break;
        const int token = 2 * i + lane / 16, known = min(token, p.rows - 1);
        float value = fmaf(SumWorkers<kWarpSums>(sums + known * 16), norm[known], bias);
        value = FinishResult(p, value, addends[i]);
        if (token < p.rows && target.y != nullptr) {
          target.y[static_cast<int64_t>(token) * target.rows] = value;
        }
      }
    }
    handover.Empty(buffer).Arrive();
    buffer.Next(kBuffers);
  }
}

}  // namespace oort::cuda::gemv
