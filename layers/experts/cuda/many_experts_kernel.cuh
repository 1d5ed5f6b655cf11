// SPDX-License-Identifier: MIT
// Products of the many rows that an expert has of a prompt. A thread block multiplies 64 rows of
// one expert by 16 strips of its weights, two of them a warp, and walks over the columns in steps
// of 64. Asynchronous copies bring strips and rows through a ring in shared memory. The instances
// are in files of their own (many_experts_*.cu), which compile side by side.
#pragma once

#include <algorithm>

#include "cuda/kernel_tools.h"
#include "cuda/launch.h"
#include "cuda/stream.h"
#include "layers/experts/cuda/expert_tiles.cuh"
#include "layers/experts/cuda/many_experts.h"

namespace oort::cuda::experts {

constexpr int kManyWarps = 8, kManyThreads = kManyWarps * 32;
constexpr int kStripsEach = 2, kManyStrips = kManyWarps * kStripsEach;
constexpr int kManyTiles = 8, kManyRows = kManyTiles * 8;
constexpr int kManyStages = 3;

/// How a stage of the ring lies: strips, then the rows of x.
template <int kPlanes>
struct ManyStage {
  static constexpr int kPieces = kChunksPerStep * kPlanes * 4;  // of 16 bytes in a row of x
  static constexpr int kRowBytes = kPieces * 16;
  int step_bytes;  ///< of a strip
  __host__ __device__ int x() const { return kManyStrips * step_bytes; }
  __host__ __device__ int bytes() const { return x() + kManyRows * kRowBytes; }

  /// Odd rows have their halves of 128 bytes exchanged, so that the eight lanes that read together
  /// (two rows) hit all banks.
  static __device__ __forceinline__ int PlaceOf(int row, int piece) {
    return row * kRowBytes + (piece ^ (row % 2 * 4)) * 16;
  }
};

template <typename K, int kPlanes>
struct ManyTile {
  const ExpertProduct& p;
  ManyStage<kPlanes> stage;
  uint32_t base;
  int expert, first_strip;
  const int* rows;  ///< of x, in shared memory

  __device__ __forceinline__ uint32_t At(int step) const {
    return base + step % kManyStages * stage.bytes();
  }
  __device__ __forceinline__ int StripOf(int i) const {
    return first_strip + static_cast<int>(threadIdx.x / 32) * kStripsEach + i;
  }
  __device__ __forceinline__ uint32_t StripAt(int step, int i) const {
    return At(step) + (StripOf(i) - first_strip) * stage.step_bytes;
  }

  /// Begins to copy a step: a warp its strips, and all of them the rows.
  __device__ __forceinline__ void Fetch(int step) const {
    if (step < p.weights.steps) {
#pragma unroll
      for (int i = 0; i < kStripsEach; ++i) {
        // Nobody reads the results of strips that stand in for those that are not there.
        const int64_t strip = int64_t{expert} * p.strips + min(StripOf(i), p.strips - 1);
        FetchStrip<K>(p.weights, strip, step, StripAt(step, i));
      }
      constexpr int kPieces = ManyStage<kPlanes>::kPieces;
      const int64_t row_bytes = int64_t{p.weights.steps} * ManyStage<kPlanes>::kRowBytes;
      const char* const x =
          static_cast<const char*>(p.x) + step * int64_t{ManyStage<kPlanes>::kRowBytes};
      for (int i = static_cast<int>(threadIdx.x); i < kManyRows * kPieces; i += kManyThreads) {
        const int row = i / kPieces, piece = i % kPieces;
        CopyAsync16(At(step) + stage.x() + ManyStage<kPlanes>::PlaceOf(row, piece),
                    x + rows[row] * row_bytes + piece * 16);
      }
    }
    CommitCopies();
  }

  __device__ __forceinline__ void Multiply(int step, const ScalePlaces& scales, int count,
                                           float (&sums)[kStripsEach][kManyTiles][4]) const {
    const int lane = static_cast<int>(threadIdx.x % 32);
    const uint32_t x = At(step) + stage.x();
#pragma unroll
    for (int chunk = 0; chunk < kChunksPerStep; ++chunk) {
      ChunkTiles<K> tiles[kStripsEach];
#pragma unroll
      for (int i = 0; i < kStripsEach; ++i) {
        tiles[i] = LoadChunk<K>(StripAt(step, i), chunk, scales, p.weights.zero_based);
      }
#pragma unroll
      for (int tile = 0; tile < kManyTiles; ++tile) {
        if (tile * 8 >= count) break;
        uint4 own[kPlanes];
#pragma unroll
        for (int plane = 0; plane < kPlanes; ++plane) {
          const int piece = (chunk * kPlanes + plane) * 4 + lane % 4;
          own[plane] = LoadShared16(x + ManyStage<kPlanes>::PlaceOf(tile * 8 + lane / 4, piece));
        }
#pragma unroll
        for (int i = 0; i < kStripsEach; ++i) {
          MultiplyChunk<K, kPlanes>(tiles[i], own, sums[i][tile]);
        }
      }
    }
  }

  /// A lane has rows g and g + 8 of its strips, for rows 2t and 2t + 1 of each tile of x.
  __device__ __forceinline__ void Store(int first_place, int count, const int* pairs,
                                        const float (&sums)[kStripsEach][kManyTiles][4]) const {
    const int g = static_cast<int>(threadIdx.x % 32) / 4, t = static_cast<int>(threadIdx.x % 4);
#pragma unroll
    for (int i = 0; i < kStripsEach; ++i) {
      const int strip = StripOf(i), hidden = strip * (kStripRows / 2) + g,
                column = strip * kStripRows + g;
      const bool real = strip < p.strips;
#pragma unroll
      for (int tile = 0; tile < kManyTiles; ++tile) {
#pragma unroll
        for (int k = 0; k < 2; ++k) {
          const int row = tile * 8 + 2 * t + k;
          if (row >= count) continue;
          const TilePair at{first_place + row, pairs[row]};
          const float first = sums[i][tile][k], second = sums[i][tile][2 + k];
          if (p.gated) {
            if (hidden < SplitColumns(p.rows)) StoreHidden(p, expert, hidden, at, first, second);
          } else if (real) {
            StoreResult(p, expert, column, at, first);
            StoreResult(p, expert, column + 8, at, second);
          }
        }
      }
    }
  }
};

/// `tiles`: blocks that share the rows of an expert.
template <typename K, int kPlanes>
__global__ void __launch_bounds__(kManyThreads, 1)
    ManyExpertsKernel(const __grid_constant__ ExpertProduct p, int tiles) {
  extern __shared__ __align__(128) unsigned char many_shared[];
  __shared__ int rows[kManyRows];
  __shared__ int pairs[kManyRows];
  WaitForPredecessor();
  LaunchDependents();
  const int place = static_cast<int>(blockIdx.y) / tiles;
  if (place >= p.pairs.in_use[p.held]) return;
  const int expert = p.pairs.in_use[place];
  const int begin = p.pairs.starts[expert], end = p.pairs.starts[expert + 1];
  const ScalePlaces scales(p.weights);
  const ManyTile<K, kPlanes> tile{p,
                                  {StepBytes(p.weights)},
                                  SharedAddress(many_shared),
                                  expert,
                                  static_cast<int>(blockIdx.x) * kManyStrips,
                                  rows};
  for (int first = begin + static_cast<int>(blockIdx.y) % tiles * kManyRows; first < end;
       first += tiles * kManyRows) {
    const int count = min(end - first, kManyRows);
    const int thread = static_cast<int>(threadIdx.x);
    if (thread < kManyRows) {
      const int known = first + min(thread, count - 1);
      pairs[thread] = p.pairs.order[known];
      rows[thread] = p.gated ? pairs[thread] / p.used : known;
    }
    __syncthreads();
    float sums[kStripsEach][kManyTiles][4] = {};
#pragma unroll
    for (int i = 0; i < kManyStages - 1; ++i) tile.Fetch(i);
    for (int step = 0; step < p.weights.steps; ++step) {
      WaitForCopies<kManyStages - 2>();
      __syncthreads();  // all see the step, and nobody reads the stage that is filled next
      tile.Fetch(step + kManyStages - 1);
      tile.Multiply(step, scales, count, sums);
    }
    tile.Store(first, count, pairs, sums);
    WaitForCopies<0>();
    __syncthreads();  // before the next rows
  }
}

template <typename K, int kPlanes>
void LaunchMany(const Stream& stream, const ExpertProduct& p) {
  const int64_t strips = p.gated ? SplitColumns(p.rows) / (kStripRows / 2) : int64_t{p.strips};
  // Some experts have more rows than others: twice the mean, and blocks take several tiles behind.
  const int64_t mean = p.tokens * p.used / std::max<int64_t>(1, p.held) / kManyRows + 1;
  constexpr int64_t kMostBlocks = 65535;  // along y
  const auto tiles = static_cast<int>(std::min(
      {(p.tokens + kManyRows - 1) / kManyRows, 2 * mean, kMostBlocks / std::max(1, p.held)}));
  const Grid grid{dim3(BlocksFor(strips, kManyStrips), static_cast<unsigned>(p.held * tiles)),
                  dim3(kManyThreads), static_cast<size_t>(ManySharedBytes(p)), true};
  AllowShared(ManyExpertsKernel<K, kPlanes>, grid.shared, 2 * kManyRows * sizeof(int), grid.shared);
  LaunchBetween(stream, grid, ManyExpertsKernel<K, kPlanes>, p, tiles);
}

template <typename K>
void LaunchManyKind(const Stream& stream, const ExpertProduct& p) {
  p.planes == kExactPlanes ? LaunchMany<K, kExactPlanes>(stream, p)
                           : LaunchMany<K, kFastPlanes>(stream, p);
}

}  // namespace oort::cuda::experts
