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

/// Pieces of a row, of which a warp stages one at a time, 8 elements by each lane.
constexpr int kPieceColumns = 256;
__host__ __device__ __forceinline__ int PiecesOf(const GemvProduct& p) {
  return (p.weights.steps * kStepColumns + kPieceColumns - 1) / kPieceColumns;
}

/// The pieces of a warp. The warps of all blocks of a cluster take them by turns, row by row. If a
/// block has columns of its own, it has every apart-th piece from `first` on, for its warps alone.
struct WarpPieces {
  uint32_t each, count, stride;  ///< of a row, of all rows, and from one of a warp to its next
  uint32_t apart = 1, first = 0;
  uint32_t row = 0, piece = 0;  ///< where the warp is, in pieces of the block

  __device__ __forceinline__ WarpPieces(const GemvProduct& p, const Cluster& cluster)
      : each(PiecesOf(p)), count(each * p.rows), stride(kWorkers * cluster.blocks) {
    Skip(cluster.rank * kWorkers + threadIdx.x / 32);
  }
  __device__ __forceinline__ WarpPieces(const GemvProduct& p, uint32_t blocks, uint32_t block)
      : each((PiecesOf(p) + blocks - 1) / blocks),
        count(each * p.rows),
        stride(kWorkers),
        apart(blocks),
        first(block) {
    Skip(threadIdx.x / 32);
  }
  __device__ __forceinline__ bool Has() const { return row * each + piece < count; }
  __device__ __forceinline__ void Next() { Skip(stride); }
  /// Of the row.
  __device__ __forceinline__ uint32_t Number() const { return piece * apart + first; }
  /// The first of the eight elements of this lane.
  __device__ __forceinline__ uint32_t First() const {
    return (Number() * 32 + threadIdx.x % 32) * 8;
  }
  /// Its place among what the block has of the row, in eights.
  __device__ __forceinline__ uint32_t Eighth() const { return piece * 32 + threadIdx.x % 32; }

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
__device__ __forceinline__ Eight LoadGain(const GemvProduct& p, const WarpPieces& pieces) {
  if (p.gain == nullptr) return {};
  return LoadFrom(p.gain, pieces.First(), p.columns);
}

/// Writes all rows of x, times the gain of an RMS norm. The factor of the norm is the same for all
/// elements of a row, so it is applied to the results, and only the sums of squares are kept:
/// `keep` is called by all lanes with the place of a piece among those of all rows, and its sum.
template <typename K, typename Keeper>
__device__ __forceinline__ void Stage(const GemvProduct& p, const StagedX& staged, WarpPieces next,
                                      const Eight& first_gain, const Keeper& keep) {
  constexpr int kAtOnce = 3;  // loads that are on their way together
  const uint32_t columns = p.columns, padded = p.weights.steps * kStepColumns;
  bool is_first = true;
#pragma unroll 1
  while (next.Has()) {
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
        // Behind the last piece of a row a block may have more.
        const uint32_t pieces = PiecesOf(p);
        if (here.Number() < pieces) keep(here.row * pieces + here.Number(), square);
      }
      StageEight<K>(p, x[i], {here.Eighth(), here.row, here.First() < padded}, staged);
      here.Next();
    }
  }
}

}  // namespace oort::cuda::gemv
