// SPDX-License-Identifier: MIT
// Stages x in shared memory. For the kernels of gemv*.cu alone.
#pragma once

#include "layers/quantized_linear/cuda/gemv_digits.h"

namespace oort::cuda::gemv {

/// Whole warps must come here, even where the last one has less to do, because lanes exchange
/// values.
template <typename K>
__device__ __forceinline__ void StageEight(const GemvProduct& p, const Eight& x, const Place& at,
                                           const StagedX& staged) {
  if constexpr (K::kPacked && K::kSplits == 2) {
    StageFewDigits<K>(x.v, at, p.weights.zero_based, staged);
  } else if constexpr (K::kPacked) {
    StageDigits<K>(x.v, at, p.weights.zero_based, staged);
  } else {
    StagePlain<K>(x.v, at, staged);
  }
}

/// A warp stages 256 elements of a row at a time, 8 by each lane. The warps of all blocks of a
/// cluster take such pieces by turns, row by row.
struct WarpPieces {
  uint32_t each, count, stride;  ///< of a row, of all rows, and from one of a warp to its next
  uint32_t row = 0, piece;       ///< where the warp is

  __device__ __forceinline__ WarpPieces(const GemvProduct& p, const Cluster& cluster)
      : each((p.weights.steps * kStepColumns + 255) / 256),
        count(each * p.rows),
        stride(kWorkers * cluster.blocks),
        piece(0) {
    Skip(cluster.rank * kWorkers + threadIdx.x / 32);
  }
  __device__ __forceinline__ bool Has() const { return row * each + piece < count; }
  __device__ __forceinline__ void Next() { Skip(stride); }
  /// The first of the eight elements of this lane.
  __device__ __forceinline__ uint32_t First() const { return (piece * 32 + threadIdx.x % 32) * 8; }

 private:
  __device__ __forceinline__ void Skip(uint32_t pieces) {
    piece += pieces;
    while (piece >= each) piece -= each, ++row;
  }
};

/// Of any number of columns; zeros behind the last.
__device__ __forceinline__ Eight LoadFrom(const float* from, uint32_t first, uint32_t columns) {
  if (columns % 8 != 0) return LoadSome(from, first, columns);
  return first < columns ? LoadEight(from + first) : Eight{};
}

/// The first of the gain, which no kernel before makes.
__device__ __forceinline__ Eight LoadGain(const GemvProduct& p, const Cluster& cluster) {
  if (p.gain == nullptr) return {};
  return LoadFrom(p.gain, WarpPieces(p, cluster).First(), p.columns);
}

/// Writes all rows of x, times the gain of an RMS norm. The factor of the norm is the same for all
/// elements of a row, so it is applied to the results, and only the sums of squares are kept here.
template <typename K>
__device__ __forceinline__ void Stage(const GemvProduct& p, const StagedX& staged,
                                      const Eight& first_gain) {
  constexpr int kAtOnce = 3;  // loads that are on their way together
  const uint32_t columns = p.columns, padded = p.weights.steps * kStepColumns;
  bool is_first = true;
#pragma unroll 1
  for (WarpPieces next(p, staged.cluster); next.Has();) {
    Eight x[kAtOnce], gain[kAtOnce];
    WarpPieces here = next;
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (!next.Has()) break;
      x[i] = LoadFrom(p.x + static_cast<int64_t>(next.row) * columns, next.First(), columns);
      if (p.gain != nullptr) {
        gain[i] = i == 0 && is_first ? first_gain : LoadFrom(p.gain, next.First(), columns);
      }
      next.Next();
    }
    is_first = false;
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (!here.Has()) break;
      if (p.gain != nullptr) {
        float square = 0;
#pragma unroll
        for (int k = 0; k < 8; ++k) {
          square = fmaf(x[i].v[k], x[i].v[k], square);
          x[i].v[k] *= gain[i].v[k];
        }
        AddUp<32>(square);
        if (threadIdx.x % 32 == 0) {
          staged.cluster.Store(&staged.squares[here.row * here.each + here.piece], square);
        }
      }
      const uint32_t first = here.First();
      StageEight<K>(p, x[i], {first / 8, here.row, first < padded}, staged);
      here.Next();
    }
  }
}

}  // namespace oort::cuda::gemv
