// SPDX-License-Identifier: MIT
// The kernels of direct_experts.h. A warp has a quarter of the columns of a strip at a time, and
// adds in the order of few_experts_kernel.cuh. Its tasks follow each other without a gap: the ring
// in shared memory fetches from the next one while this one is multiplied. The instances are in
// files of their own (direct_experts_*.cu), which compile side by side.
#pragma once

#include <algorithm>

#include "cuda/device.h"
#include "cuda/kernel_tools.h"
#include "cuda/launch.h"
#include "cuda/stream.h"
#include "layers/experts/cuda/direct_experts.h"
#include "layers/experts/cuda/expert_tiles.cuh"
#include "layers/experts/cuda/few_experts_kernel.cuh"
#include "layers/experts/cuda/route_token.cuh"
#include "layers/quantized_linear/cuda/gemv.h"

namespace oort::cuda::experts {

constexpr int kDirectUpBlocks = 3;         // of a multiprocessor
constexpr int kMostDownThreads = 16 * 32;  // of a block

/// The steps of a warp's tasks, one behind the other. `Tasks` has `count` tasks, of which a warp
/// takes every one that is `stride` behind the last, and tells their steps.
struct TaskStep {
  int task, step = 0, end = 0;

  template <typename Tasks>
  __device__ __forceinline__ TaskStep(const Tasks& tasks, int first) : task(first) {
    if (task < tasks.count) tasks.Steps(task, step, end);
    Settle(tasks);
  }
  template <typename Tasks>
  __device__ __forceinline__ void Next(const Tasks& tasks) {
    ++step;
    Settle(tasks);
  }
  template <typename Tasks>
  __device__ __forceinline__ bool IsOne(const Tasks& tasks) const {
    return task < tasks.count;
  }

 private:
  /// Past tasks that have no more steps.
  template <typename Tasks>
  __device__ __forceinline__ void Settle(const Tasks& tasks) {
    while (task < tasks.count && step >= end) {
      task += tasks.stride;
      if (task < tasks.count) tasks.Steps(task, step, end);
    }
  }
};

/// Places in a ring, one behind the other.
template <typename K>
struct RingPlace {
  int place = 0;
  __device__ __forceinline__ void Next() { place = place + 1 < K::kStages ? place + 1 : 0; }
};

/// Begins to fetch the weights of a step, if it is one, and goes on to the next.
template <typename K, typename Tasks>
__device__ __forceinline__ void FetchNext(const DeviceWeights& weights, const Tasks& tasks,
                                          TaskStep& at, uint32_t to) {
  if (!at.IsOne(tasks)) return;
  FetchStrip<K>(weights, tasks.Strip(at.task), at.step, to);
  at.Next(tasks);
}

/// `x`: those of the step in shared memory, of one row; it stands in all eight of the tile.
template <typename K, int kPlanes>
__device__ __forceinline__ void MultiplyStep(uint32_t weights, uint32_t x,
                                             const ScalePlaces& scales, bool zero_based,
                                             float (&sums)[4]) {
#pragma unroll
  for (int chunk = 0; chunk < kChunksPerStep; ++chunk) {
    uint4 numbers[kPlanes];
#pragma unroll
    for (int plane = 0; plane < kPlanes; ++plane) {
      numbers[plane] =
          LoadShared16(x + (chunk * kPlanes + plane) * kChunkColumns * 2 + threadIdx.x % 4 * 16);
    }
    const ChunkTiles<K> tiles = LoadChunk<K>(weights, chunk, scales, zero_based);
    MultiplyChunk<K, kPlanes>(tiles, numbers, sums);
  }
}

/// What lanes have of the one row: numbers g and g + 8 of the strip.
__device__ __forceinline__ void KeepSums(float* to, const float (&sums)[4]) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  if (lane % 4 != 0) return;
  to[lane / 4] = sums[0];
  to[lane / 4 + 8] = sums[2];
}

/// Added up in the order of SumParts.
__device__ __forceinline__ float SumSplits(const float* parts, int r) {
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kSplits; ++i) sum += parts[i * kStripRows + r];
  return sum;
}

/// Bytes of the weights of an expert.
inline __host__ __device__ int64_t ExpertBytes(const ExpertProduct& p) {
  const DeviceWeights& w = p.weights;
  return IsPacked(w.format) ? int64_t{p.strips} * w.steps * RecordBytes(w)
                            : int64_t{p.strips} * kStripRows * w.row_elements * 2;
}

/// Piece `own` of `pieces` of an expert's weights, of at most `most` bytes from the first on, is
/// brought into the L2 cache.
__device__ __forceinline__ void BringAhead(const ExpertProduct& p, int expert, int64_t most,
                                           int own, int pieces) {
#if __CUDA_ARCH__ >= 900
  const int64_t whole = ExpertBytes(p), all = min(whole, most);
  const int64_t each = (all / pieces + 15) / 16 * 16, first = own * each;
  const int64_t bytes = min(each, all - first) / 16 * 16;
  if (bytes <= 0) return;
  const char* const from = static_cast<const char*>(p.weights.data) + expert * whole + first;
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from),
               "r"(static_cast<uint32_t>(bytes))
               : "memory");
#endif
}

// ---- Gate and up -------------------------------------------------------------------------------

/// Pairs of strips of an expert, of which a warp has its quarter of one.
struct UpTasks {
  const ExpertProduct& p;
  int expert, count, stride;

  __device__ __forceinline__ int StripOf(int task) const {
    return task * kFewStrips + static_cast<int>(threadIdx.x / 32) / kSplits;
  }
  __device__ __forceinline__ int64_t Strip(int task) const {
    return int64_t{expert} * p.strips + StripOf(task);
  }
  __device__ __forceinline__ void Steps(int task, int& step, int& end) const {
    const int split = static_cast<int>(threadIdx.x / 32) % kSplits;
    const int steps = StripOf(task) < p.strips ? p.weights.steps : 0;
    step = steps * split / kSplits;
    end = steps * (split + 1) / kSplits;
  }
};

/// Where things lie in the shared memory of gate and up, in bytes.
struct UpPlan {
  int64_t x, ranks, total;
  __host__ __device__ UpPlan(const DirectMixture& m, int stages)
      : x(int64_t{kFewStrips} * kSplits * stages * StepBytes(m.up.weights)),
        ranks(x + SplitRowElements(m.step.columns, m.step.planes) * 2),
        total(ranks + m.step.rule.experts * int64_t{sizeof(float)}) {}
};

/// Blocks (pairs, some of the pairs of strips).
template <typename K, int kPlanes>
__global__ void __launch_bounds__(kFewThreads, kDirectUpBlocks)
    DirectUpKernel(const __grid_constant__ DirectMixture m) {
  extern __shared__ __align__(16) unsigned char direct_shared[];
  __shared__ float parts[2][kFewStrips * kSplits][kStripRows];
  __shared__ int chosen;
  __shared__ float share;
  const ExpertProduct& p = m.up;
  const UpPlan plan(m, K::kStages);
  const int warp = static_cast<int>(threadIdx.x / 32), used = p.used;
  const int pair = static_cast<int>(blockIdx.x), token = pair / used;
  WaitForPredecessor();
  LaunchDependents();
  if (warp == 0) {
    const TokenExpert found =
        RouteWithWarp(m.step.rule, m.step.logits + token * m.step.rule.experts,
                      reinterpret_cast<float*>(direct_shared + plan.ranks));
    if (static_cast<int>(threadIdx.x) < used && found.slot == pair % used) {
      chosen = HeldExpert(found.expert, m.step.first, m.step.held);
      share = found.weight;
    }
  } else {
    SplitNumbers(m.step.x + token * m.step.columns, static_cast<int>(m.step.columns), kPlanes,
                 reinterpret_cast<__nv_bfloat16*>(direct_shared + plan.x),
                 static_cast<int>(threadIdx.x) - 32, kFewThreads - 32);
  }
  __syncthreads();
  const int expert = chosen;
  if (expert >= p.held) return;  // nobody reads its row
  // Zeros fill hidden rows: whole steps of the weights behind.
  const int strips = static_cast<int>(SplitColumns(p.rows) / (kStripRows / 2));
  const UpTasks tasks{p, expert, (strips + kFewStrips - 1) / kFewStrips,
                      static_cast<int>(gridDim.y)};
  const int first = static_cast<int>(blockIdx.y);
  const int step_bytes = StepBytes(p.weights);
  const uint32_t ring = SharedAddress(direct_shared) + warp * K::kStages * step_bytes;
  const uint32_t x = SharedAddress(direct_shared + plan.x);
  TaskStep fetched(tasks, first), at(tasks, first);
#pragma unroll
  for (int i = 0; i < K::kStages - 1; ++i) {
    FetchNext<K>(p.weights, tasks, fetched, ring + i * step_bytes);
    CommitCopies();
  }
  if (m.ahead > 0 && threadIdx.x % 32 == 0) {
    constexpr int kWarps = kFewThreads / 32;
    BringAhead(m.down, expert, m.ahead / static_cast<int>(gridDim.x), first * kWarps + warp,
               static_cast<int>(gridDim.y) * kWarps);
  }
  const ScalePlaces scales(p.weights);
  RingPlace<K> full, empty{K::kStages - 1};
  for (int task = first, buffer = 0; task < tasks.count; task += tasks.stride, buffer ^= 1) {
    float sums[4] = {};
    while (at.task == task) {
      WaitForCopies<K::kStages - 2>();
      __syncwarp();  // all lanes see the step, and none reads the one before any more
      FetchNext<K>(p.weights, tasks, fetched, ring + empty.place * step_bytes);
      CommitCopies();
      MultiplyStep<K, kPlanes>(ring + full.place * step_bytes,
                               x + at.step * (kStepColumns * kPlanes * 2), scales,
                               p.weights.zero_based, sums);
      full.Next();
      empty.Next();
      at.Next(tasks);
    }
    KeepSums(parts[buffer][warp], sums);
    __syncthreads();  // those who read this buffer have done so before the barrier behind the next
    constexpr int kEach = kStripRows / 2;
    if (const int i = static_cast<int>(threadIdx.x); i < kFewStrips * kEach) {
      const int strip = i / kEach, r = i % kEach;
      const int column = (task * kFewStrips + strip) * kEach + r;
      const float* const of_strip = parts[buffer][strip * kSplits];
      if (column < SplitColumns(p.rows)) {
        StoreHidden(p, expert, column, pair, p.scales_inputs ? share : 1.0f, SumSplits(of_strip, r),
                    SumSplits(of_strip, r + kEach));
      }
    }
  }
  WaitForCopies<0>();
}

// ---- Down --------------------------------------------------------------------------------------

/// What a strip of each of a token's experts gives, by quarters of the columns.
struct DownTasks {
  const ExpertProduct& p;
  const int* experts;  ///< of the token
  int strip, count, stride;

  __device__ __forceinline__ int64_t Strip(int task) const {
    return int64_t{experts[task / kSplits]} * p.strips + strip;
  }
  __device__ __forceinline__ void Steps(int task, int& step, int& end) const {
    const int split = task % kSplits;
    const int steps = experts[task / kSplits] < p.held ? p.weights.steps : 0;
    step = steps * split / kSplits;
    end = steps * (split + 1) / kSplits;
  }
};

/// Where things lie in the shared memory of down, in bytes.
struct DownPlan {
  int64_t x, parts, ranks, total;
  __host__ __device__ DownPlan(const DirectMixture& m, int warps, int stages)
      : x(int64_t{warps} * stages * StepBytes(m.down.weights)),
        parts(x + int64_t{warps} * stages * (kStepColumns * m.step.planes * 2)),
        ranks(parts + int64_t{m.down.used} * kSplits * kStripRows * int64_t{sizeof(float)}),
        total(ranks + std::max<int64_t>(m.step.rule.experts, m.down.used * kStripRows) *
                          int64_t{sizeof(float)}) {}
};

/// Begins to fetch the numbers of x of a step, if it is one, and goes on to the next.
template <int kPlanes>
__device__ __forceinline__ void FetchNextX(const ExpertProduct& p, const DownTasks& tasks,
                                           int first_pair, TaskStep& at, uint32_t to) {
  constexpr int kBytes = kStepColumns * kPlanes * 2;
  if (!at.IsOne(tasks)) return;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int64_t pair = first_pair + at.task / kSplits;
  if (lane < kBytes / 16) {
    CopyAsync16(to + lane * 16, static_cast<const char*>(p.x) +
                                    (pair * p.weights.steps + at.step) * kBytes + lane * 16);
  }
  at.Next(tasks);
}

/// Blocks (tokens, strips).
template <typename K, int kPlanes>
__global__ void __launch_bounds__(kMostDownThreads, 1)
    DirectDownKernel(const __grid_constant__ DirectMixture m) {
  extern __shared__ __align__(16) unsigned char direct_shared[];
  __shared__ int chosen[kMostUsedExperts];
  __shared__ float shares[kMostUsedExperts];
  const ExpertProduct& p = m.down;
  const int threads = static_cast<int>(blockDim.x), thread = static_cast<int>(threadIdx.x);
  const int warp = thread / 32, used = p.used, token = static_cast<int>(blockIdx.x);
  const DownPlan plan(m, threads / 32, K::kStages);
  auto* const parts = reinterpret_cast<float*>(direct_shared + plan.parts);
  auto* const ranks = reinterpret_cast<float*>(direct_shared + plan.ranks);
  // The logits are there: gate and up, which let this kernel begin, have waited for them.
  if (warp == 0) {
    const TokenExpert found =
        RouteWithWarp(m.step.rule, m.step.logits + token * m.step.rule.experts, ranks);
    if (thread < used) {
      const int expert = HeldExpert(found.expert, m.step.first, m.step.held);
      chosen[found.slot] = expert;
      shares[found.slot] = expert >= p.held ? 0.0f : m.sum.weighted ? found.weight : 1.0f;
    }
  }
  // A quarter may have no column.
  for (int i = thread; i < used * kSplits * kStripRows; i += threads) parts[i] = 0;
  __syncthreads();
  const DownTasks tasks{p, chosen, static_cast<int>(blockIdx.y), used * kSplits, threads / 32};
  const int step_bytes = StepBytes(p.weights);
  constexpr int kBytesOfX = kStepColumns * kPlanes * 2;
  const uint32_t ring = SharedAddress(direct_shared) + warp * K::kStages * step_bytes;
  const uint32_t x = SharedAddress(direct_shared + plan.x) + warp * K::kStages * kBytesOfX;
  TaskStep fetched(tasks, warp);
#pragma unroll
  for (int i = 0; i < K::kStages - 1; ++i) {
    FetchNext<K>(p.weights, tasks, fetched, ring + i * step_bytes);
    CommitCopies();
  }
  WaitForPredecessor();
  LaunchDependents();
  TaskStep fetched_x(tasks, warp);
#pragma unroll
  for (int i = 0; i < K::kStages - 1; ++i) {
    FetchNextX<kPlanes>(p, tasks, token * used, fetched_x, x + i * kBytesOfX);
    CommitCopies();
  }
  const int column = tasks.strip * kStripRows + thread;
  const bool finishes = thread < kStripRows && column < p.rows;
  const int64_t place = int64_t{token} * p.rows + column;
  float sum = finishes && m.sum.addend != nullptr ? m.sum.addend[place] : 0.0f;
  const ScalePlaces scales(p.weights);
  RingPlace<K> full, empty{K::kStages - 1};
  TaskStep at(tasks, warp);
  while (at.IsOne(tasks)) {
    const int task = at.task;
    float sums[4] = {};
    while (at.task == task) {
      // Weights of a step are fetched before its x, or with it.
      WaitForCopies<K::kStages - 2>();
      __syncwarp();
      FetchNext<K>(p.weights, tasks, fetched, ring + empty.place * step_bytes);
      FetchNextX<kPlanes>(p, tasks, token * used, fetched_x, x + empty.place * kBytesOfX);
      CommitCopies();
      MultiplyStep<K, kPlanes>(ring + full.place * step_bytes, x + full.place * kBytesOfX, scales,
                               p.weights.zero_based, sums);
      full.Next();
      empty.Next();
      at.Next(tasks);
    }
    KeepSums(parts + task * kStripRows, sums);
  }
  WaitForCopies<0>();
  __syncthreads();
  float* const results = ranks;  // (experts, rows of the strip); nobody reads ranks any more
  for (int i = thread; i < used * kStripRows; i += threads) {
    const int slot = i / kStripRows, r = i % kStripRows, row = tasks.strip * kStripRows + r;
    float value = SumSplits(parts + slot * kSplits * kStripRows, r);
    if (p.bias != nullptr && chosen[slot] < p.held && row < p.rows) {
      value += p.bias[int64_t{chosen[slot]} * p.rows + row];
    }
    results[i] = value;
  }
  __syncthreads();
  if (!finishes) return;
  for (int slot = 0; slot < used; ++slot) {
    sum = fmaf(shares[slot], results[slot * kStripRows + thread], sum);
  }
  m.sum.out[place] = sum;
}

// ---- Launches ----------------------------------------------------------------------------------

/// Warps of a block of down. Blocks of one token have a multiprocessor each.
inline int DownWarps(const DirectMixture& m) {
  return std::min(m.down.used * kSplits, m.step.tokens == 1 ? kMostDownThreads / 32 : 8);
}

template <typename K, int kPlanes>
void LaunchDirectUp(const Stream& stream, const DirectMixture& m) {
  const int64_t shared = UpPlan(m, K::kStages).total;
  const int64_t fit =
      std::clamp<int64_t>(MostSharedBytes(stream.device()) / shared, 1, kDirectUpBlocks);
  const int64_t pairs = m.step.tokens * m.up.used;
  const int64_t tasks = BlocksFor(SplitColumns(m.up.rows) / (kStripRows / 2), kFewStrips);
  const int64_t at_once = std::max<int64_t>(1, fit * MultiprocessorCount(stream.device()) / pairs);
  // As many tasks for each block, if that can be.
  const int64_t rounds = (tasks + at_once - 1) / at_once;
  const Grid grid{
      dim3(static_cast<unsigned>(pairs), static_cast<unsigned>((tasks + rounds - 1) / rounds)),
      dim3(kFewThreads), static_cast<size_t>(shared), true};
  constexpr size_t kDeclared = 2 * kFewStrips * kSplits * kStripRows * 4 + 8;
  AllowShared(DirectUpKernel<K, kPlanes>, grid.shared, kDeclared);
  LaunchBetween(stream, grid, DirectUpKernel<K, kPlanes>, m);
}

template <typename K, int kPlanes>
void LaunchDirectDown(const Stream& stream, const DirectMixture& m) {
  const int warps = DownWarps(m);
  const Grid grid{dim3(static_cast<unsigned>(m.step.tokens), static_cast<unsigned>(m.down.strips)),
                  dim3(static_cast<unsigned>(warps) * 32),
                  static_cast<size_t>(DownPlan(m, warps, K::kStages).total), true};
  AllowShared(DirectDownKernel<K, kPlanes>, grid.shared, 2 * kMostUsedExperts * sizeof(float));
  LaunchBetween(stream, grid, DirectDownKernel<K, kPlanes>, m);
}

template <typename K>
void LaunchDirectKind(const Stream& stream, const DirectMixture& m, bool up) {
  const bool exact = m.step.planes == kExactPlanes;
  if (up) {
    exact ? LaunchDirectUp<K, kExactPlanes>(stream, m) : LaunchDirectUp<K, kFastPlanes>(stream, m);
  } else {
    exact ? LaunchDirectDown<K, kExactPlanes>(stream, m)
          : LaunchDirectDown<K, kFastPlanes>(stream, m);
  }
}

}  // namespace oort::cuda::experts
