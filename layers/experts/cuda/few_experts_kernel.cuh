// SPDX-License-Identifier: MIT
// Products of the few rows that an expert has in a step of decode, at the speed of the memory. A
// thread block has two strips of one expert; four warps each share the columns of a strip. A warp
// fetches its records through a ring in shared memory of its own, so that warps wait for each other
// only at the end, where their sums are added up in a fixed order. Rows of an expert are taken in
// tiles of eight: its weights are read once for 8 kTiles of them. The instances are in files of
// their own (few_experts_*.cu), which compile side by side.
#pragma once

#include <algorithm>

#include "cuda/kernel_tools.h"
#include "cuda/launch.h"
#include "cuda/stream.h"
#include "layers/experts/cuda/expert_tiles.cuh"
#include "layers/experts/cuda/few_experts.h"

namespace oort::cuda::experts {

constexpr int kFewStrips = 2, kSplits = 4;  // of a block, and of the columns
constexpr int kFewWarps = kFewStrips * kSplits, kFewThreads = kFewWarps * 32;

/// The ring of a warp: steps of its part of a strip.
template <typename K>
struct StripRing {
  const DeviceWeights& weights;
  uint32_t base;
  int step_bytes, first, end;
  int64_t strip;

  /// Begins to fetch a step, if it is one.
  __device__ __forceinline__ void Fetch(int step) const {
    if (step < end) FetchStrip<K>(weights, strip, step, At(step));
    CommitCopies();
  }
  __device__ __forceinline__ uint32_t At(int step) const {
    return base + (step - first) % K::kStages * step_bytes;
  }
  __device__ __forceinline__ void Begin() const {
#pragma unroll
    for (int i = 0; i < K::kStages - 1; ++i) Fetch(first + i);
  }
};

/// Rows of x of a tile, as a lane reads them.
template <int kPlanes, int kTiles>
struct TileRows {
  const unsigned char* rows[kTiles];

  __device__ __forceinline__ void Load(int tile, int step, int chunk, uint4 (&x)[kPlanes]) const {
    const unsigned char* const from =
        rows[tile] + (step * kChunksPerStep + chunk) * (kPlanes * kChunkColumns * 2);
#pragma unroll
    for (int plane = 0; plane < kPlanes; ++plane) {
      x[plane] = *reinterpret_cast<const uint4*>(from + plane * kChunkColumns * 2);
    }
  }
};

/// Adds up what a warp's part of a strip gives for `count` rows. The ring has been begun.
template <typename K, int kPlanes, int kTiles>
__device__ __forceinline__ void MultiplyStrip(const StripRing<K>& ring,
                                              const TileRows<kPlanes, kTiles>& rows, int count,
                                              float (&sums)[kTiles][4]) {
  const ScalePlaces scales(ring.weights);
  const bool zero_based = ring.weights.zero_based;
  for (int step = ring.first; step < ring.end; ++step) {
    uint4 x[kChunksPerStep][kPlanes];
#pragma unroll
    for (int chunk = 0; chunk < kChunksPerStep; ++chunk) rows.Load(0, step, chunk, x[chunk]);
    WaitForCopies<K::kStages - 2>();
    __syncwarp();  // all lanes see the step, and none reads the one before any more
    ring.Fetch(step + K::kStages - 1);
#pragma unroll
    for (int chunk = 0; chunk < kChunksPerStep; ++chunk) {
      const ChunkTiles<K> tiles = LoadChunk<K>(ring.At(step), chunk, scales, zero_based);
      MultiplyChunk<K, kPlanes>(tiles, x[chunk], sums[0]);
#pragma unroll
      for (int tile = 1; tile < kTiles; ++tile) {
        if (tile * 8 >= count) break;
        uint4 more[kPlanes];
        rows.Load(tile, step, chunk, more);
        MultiplyChunk<K, kPlanes>(tiles, more, sums[tile]);
      }
    }
  }
  WaitForCopies<0>();
  __syncwarp();  // before the ring is begun anew
}

/// (warps, rows of x of a tile, rows of a strip).
template <int kTiles>
using FewSums = float[kFewWarps][kTiles * 8][kStripRows];

/// What the parts of the columns add up to.
template <int kTiles>
__device__ __forceinline__ float SumParts(const FewSums<kTiles>& sums, int strip, int row, int r) {
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kSplits; ++i) sum += sums[strip * kSplits + i][row][r];
  return sum;
}

template <int kTiles>
__device__ __forceinline__ void StoreFew(const ExpertProduct& p, int expert, int first_strip,
                                         int first_place, int count, const int* pairs,
                                         const FewSums<kTiles>& sums) {
  // A hidden row has eight numbers of a strip, others have sixteen.
  const int each = p.gated ? kStripRows / 2 : kStripRows;
  for (int i = static_cast<int>(threadIdx.x); i < count * kFewStrips * each; i += kFewThreads) {
    const int r = i % each, strip = i / each % kFewStrips, row = i / each / kFewStrips;
    const TilePair at{first_place + row, pairs[row]};
    const int column = (first_strip + strip) * each + r;
    const float sum = SumParts<kTiles>(sums, strip, row, r);
    if (!p.gated) {
      StoreResult(p, expert, column, at, sum);
    } else if (column < SplitColumns(p.rows)) {
      StoreHidden(p, expert, column, at, sum, SumParts<kTiles>(sums, strip, row, r + 8));
    }
  }
}

/// Thread blocks that a multiprocessor has at once. For one token the down products of a model with
/// 2048 hidden numbers and eight experts are 512 blocks: four each on 128 multiprocessors, so that
/// none is left over.
constexpr int FewBlocks(int planes, int tiles) {
  if (tiles > 1) return 2;
  return planes == kFastPlanes ? 4 : 3;
}

/// `stages`: of a ring, that it has room for.
template <typename K, int kPlanes, int kTiles>
__global__ void __launch_bounds__(kFewThreads, FewBlocks(kPlanes, kTiles))
    FewExpertsKernel(const __grid_constant__ ExpertProduct p, int stages) {
  extern __shared__ __align__(16) unsigned char few_shared[];
  __shared__ FewSums<kTiles> parts;
  __shared__ int pairs[kTiles * 8];
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  const int first_strip = static_cast<int>(blockIdx.x) * kFewStrips;
  const int strip = first_strip + warp / kSplits, split = warp % kSplits;
  // The kernels of a step begin when those before have passed this point, so what is two kernels
  // back is there: only hidden rows, which one kernel back writes, must be waited for.
  if (p.gated) {
    WaitForPredecessor();
    LaunchDependents();
  }
  // Loads that wait for no other: what is behind the last expert in use is no expert.
  const int known = __ldcg(&p.pairs.in_use[p.held]), there = __ldcg(&p.pairs.in_use[blockIdx.y]);
  const bool in_use = static_cast<int>(blockIdx.y) < known;
  const int expert = in_use ? there : 0;
  const int begin = __ldcg(&p.pairs.starts[expert]);
  const int end = in_use ? __ldcg(&p.pairs.starts[expert + 1]) : begin;
  const int steps = in_use && strip < p.strips ? p.weights.steps : 0;
  const int step_bytes = StepBytes(p.weights);
  const StripRing<K> ring{p.weights,
                          SharedAddress(few_shared) + warp * stages * step_bytes,
                          step_bytes,
                          steps * split / kSplits,
                          steps * (split + 1) / kSplits,
                          int64_t{expert} * p.strips + strip};
  ring.Begin();
  if (!p.gated) {
    WaitForPredecessor();
    LaunchDependents();
  }
  const int64_t row_bytes = int64_t{p.weights.steps} * kStepColumns * kPlanes * 2;
  for (int first = begin; first < end; first += kTiles * 8) {
    const int count = min(end - first, kTiles * 8);
    if (first != begin) ring.Begin();
    TileRows<kPlanes, kTiles> rows;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      // Nobody reads the results of rows that stand in for those that are not there.
      const int place = first + min(tile * 8 + lane / 4, count - 1);
      const int64_t row = p.gated ? __ldcg(&p.pairs.order[place]) / p.used : place;
      rows.rows[tile] = static_cast<const unsigned char*>(p.x) + row * row_bytes + lane % 4 * 16;
    }
    if (static_cast<int>(threadIdx.x) < count) {
      pairs[threadIdx.x] = __ldcg(&p.pairs.order[first + static_cast<int>(threadIdx.x)]);
    }
    float sums[kTiles][4] = {};
    MultiplyStrip<K, kPlanes, kTiles>(ring, rows, count, sums);
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        parts[warp][tile * 8 + lane % 4 * 2 + i % 2][lane / 4 + i / 2 * 8] = sums[tile][i];
      }
    }
    __syncthreads();
    StoreFew<kTiles>(p, expert, first_strip, first, count, pairs, parts);
    __syncthreads();  // before the next tiles
  }
}

/// Tiles of a launch: enough for most experts of a step.
inline int FewTilesFor(const ExpertProduct& p) {
  constexpr int64_t kTile = 8;
  const int64_t mean = p.tokens * p.used / std::max(1, p.held);
  return p.tokens <= kTile || mean * 2 <= kTile ? 1 : 4;
}

/// Stages of a warp's ring: no more than it has steps, where that is so little that Launch does not
/// ask for it (AllowShared).
template <typename K>
int RingStages(const DeviceWeights& w) {
  const int steps = std::max(1, (w.steps + kSplits - 1) / kSplits);
  const bool plain = static_cast<size_t>(kFewWarps * steps * StepBytes(w)) <= kPlainSharedBytes;
  return plain ? std::min(steps, K::kStages) : K::kStages;
}

template <typename K, int kPlanes, int kTiles>
void LaunchFew(const Stream& stream, const ExpertProduct& p) {
  // Zeros fill hidden rows: whole steps of the weights behind.
  const int64_t strips = p.gated ? SplitColumns(p.rows) / (kStripRows / 2) : int64_t{p.strips};
  const int64_t experts = std::min<int64_t>(p.held, p.tokens * p.used);
  const int stages = RingStages<K>(p.weights);
  const auto bytes = [&](int count) {
    return static_cast<size_t>(kFewWarps * count * StepBytes(p.weights));
  };
  const Grid grid{dim3(BlocksFor(strips, kFewStrips), static_cast<unsigned>(experts)),
                  dim3(kFewThreads), bytes(stages), true};
  AllowShared(FewExpertsKernel<K, kPlanes, kTiles>, grid.shared,
              sizeof(FewSums<kTiles>) + kTiles * 8 * sizeof(int), bytes(K::kStages));
  LaunchBetween(stream, grid, FewExpertsKernel<K, kPlanes, kTiles>, p, stages);
}

template <typename K>
void LaunchFewKind(const Stream& stream, const ExpertProduct& p) {
  const bool one = FewTilesFor(p) == 1;
  if (p.planes == kExactPlanes) {
    one ? LaunchFew<K, kExactPlanes, 1>(stream, p) : LaunchFew<K, kExactPlanes, 4>(stream, p);
  } else {
    one ? LaunchFew<K, kFastPlanes, 1>(stream, p) : LaunchFew<K, kFastPlanes, 4>(stream, p);
  }
}

}  // namespace oort::cuda::experts
