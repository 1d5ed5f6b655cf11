// SPDX-License-Identifier: MIT
// A persistent, warp-specialized GEMV: one thread block on each multiprocessor walks over strips of
// 16 rows. Fetching warps keep a ring of stages in shared memory full. Their asynchronous copies
// begin before the preceding kernel, which computes x, has ended. Sixteen worker warps multiply on
// tensor cores, each one or two steps of every stage. One more warp, the finisher, sums up the
// workers' parts of a strip and writes the results. Warps synchronize only through barriers of
// single stages and buffers.
//
// x lies in shared memory as sums of two 16-bit numbers or of four 8-bit digits (gemv_stage.h),
// which stand in different columns of the second factor. So products keep the precision of f32
// activations at no cost: the tensor cores have eight columns anyway, and the weights are read
// once. Bytes are multiplied as they are, and nibbles without being extracted from their bytes.
// The instances are in files of their own (gemv*.cu), which compile side by side.
#pragma once

#include <algorithm>

#include "cuda/device.h"
#include "cuda/kernel_launch.h"
#include "cuda/kernel_tools.h"
#include "cuda/stream.h"
#include "layers/quantized_linear/cuda/gemv_finish.h"
#include "layers/quantized_linear/cuda/gemv_kinds.h"

namespace oort::cuda::gemv {

// ---- The kernel --------------------------------------------------------------------------------

/// Where things lie in dynamic shared memory.
template <typename K>
struct SharedPlan {
  int rows, tiles, steps, stages;
  __host__ __device__ int sums() const { return stages * K::kStageBytes; }
  __host__ __device__ int values() const {
    return sums() + kBuffers * kWorkers * tiles * K::kTileSums * 4;
  }
  __host__ __device__ int starts() const {
    return values() + steps * kStepColumns * rows * K::kSplits * K::kSplitBytes;
  }
  __host__ __device__ int factors() const { return starts() + (K::kPacked ? spans() * 8 : 0); }
  __host__ __device__ int squares() const {
    return factors() + (K::kBf16 ? 0 : spans() * static_cast<int>(sizeof(SpanFactor)));
  }
  __host__ __device__ int total() const {
    return squares() + (steps * kStepColumns + 255) / 256 * rows * static_cast<int>(sizeof(float));
  }
  __host__ __device__ int spans() const {
    return steps * K::kSpansPerStep * rows * K::kPairsPerRow;
  }
};

/// Most rows of x of one launch.
template <typename K>
inline constexpr int kMostRows = K::kPacked&& K::kSplits == 2 ? kFewDigitRows : kGemvRows;

/// How many tiles the kernel for so many rows has. There are few kernels, because each takes long
/// to compile.
template <typename K>
constexpr int TilesFor(int rows) {
  return rows == 1 ? 1 : (rows <= 4 ? 4 : kMostRows<K>) / K::kTileTokens;
}

struct GemvArgs {
  GemvProduct product;
  int stages;
};

template <typename K, int kTiles, bool kSingle>
__global__ void __launch_bounds__(K::kThreads, 1)
    GemvKernel(const __grid_constant__ GemvArgs args) {
  const GemvProduct& p = args.product;
  const int stages = args.stages;
  extern __shared__ __align__(128) unsigned char gemv_shared[];
  __shared__ float norm[kGemvRows];
  __shared__ __align__(8) uint64_t barriers[2 * K::kStages + kBuffers + 1];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const SharedPlan<K> plan{p.rows, kTiles, p.weights.steps, stages};
  const uint32_t base = Keep(SharedAddress(gemv_shared));
  const uint32_t first_barrier = Keep(SharedAddress(barriers));
  const Ring<K> ring{base, first_barrier, first_barrier + K::kStages * 8, stages};
  const uint32_t behind = first_barrier + 2 * K::kStages * 8;
  const Handover handover{reinterpret_cast<float*>(gemv_shared + plan.sums()), behind};
  const Barrier x_staged{behind + kBuffers * 8};
  constexpr bool kShared = K::kClusters && !kSingle;  // x is staged by all blocks of a cluster
  const Cluster cluster = kShared ? Cluster::Here() : Cluster();
  LaunchDependents();
  if (threadIdx.x == 0) {
    Turn turn;
    for (int i = 0; i < stages; ++i, turn.Next(stages)) {
      ring.Full(turn).Init(Ring<K>::kFillers);
      ring.Empty(turn).Init(kWorkers);
    }
    for (int i = 0; i < kBuffers; ++i) handover.Empty({i, 0}).Init(32);
    x_staged.Init(kWorkers * static_cast<int>(cluster.blocks));
#if __CUDA_ARCH__ >= 900
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
  }
  cluster.Synchronize();
  if (warp > kWorkers) {
    // Weights do not depend on the kernel before.
    Fetch<K>(p.weights, ring, x_staged, warp - kWorkers - 1);
    return;
  }
  const WorkPlace<K, kSingle> place(
      ring, WorkerX<K, kSingle>(base + plan.values(), base + plan.starts(), base + plan.factors(),
                                p.rows, warp));
  const WarpPieces pieces(p, cluster);
  Eight gain{};
  if (warp < kWorkers) gain = LoadGain(p, pieces);
  WaitForPredecessor();
  const StagedX staged{
      gemv_shared + plan.values(), reinterpret_cast<int*>(gemv_shared + plan.starts()),
      reinterpret_cast<SpanFactor*>(gemv_shared + plan.factors()), p.rows, cluster};
  // (rows, pieces of 256 elements): sums of the squares of x.
  float* const squares = reinterpret_cast<float*>(gemv_shared + plan.squares());
  if (warp < kWorkers) {
    Stage<K>(p, staged, pieces, gain, [&](uint32_t place, float square) {
      if (lane == 0) cluster.Store(&squares[place], square);
    });
    if constexpr (kShared) {
      ArriveEverywhere(cluster, x_staged);
    } else if (lane == 0) {
      x_staged.Arrive();
    }
  }
  if constexpr (kShared) {
    WaitForAll(x_staged);
  } else {
    // Everybody but the fetchers.
    asm volatile("bar.sync 1, %0;" ::"n"((kWorkers + 1) * 32) : "memory");
  }
  if (warp == kWorkers) {
    if (lane < p.rows) norm[lane] = NormOf(p, squares + lane * PiecesOf(p));
    __syncwarp();
    FinishStrips<kTiles * K::kTileSums, kSingle>(p, handover, norm);
    return;
  }
  if constexpr (K::kPacked && kSingle) {
    if (p.weights.steps <= kHeldSteps * kWorkers) {
      WorkHeld<K>(p.weights, ring, place, handover);
      return;
    }
  }
  Work<K, kTiles, kSingle>(p.weights, ring, place, handover);
}

// ---- Launches ----------------------------------------------------------------------------------

template <typename K>
int64_t SharedBytes(const GemvProduct& p, int stages) {
  return SharedPlan<K>{p.rows, TilesFor<K>(p.rows), p.weights.steps, stages}.total();
}

/// Blocks that stage rows of x together. Larger clusters find no place on some groups of
/// multiprocessors.
inline unsigned ClusterFor(int device, int strips) {
  constexpr int kFewStrips = 64;
  return TraitsOf(device).clusters && strips >= kFewStrips ? 2 : 1;
}

template <typename K, int kTiles, bool kSingle = false>
void LaunchTiles(const Stream& stream, const GemvProduct& product, bool overlap) {
  const int64_t most = MostSharedBytes(stream.device());
  int stages = kLeastStages;
  while (stages < K::kStages && SharedBytes<K>(product, stages + 1) <= most) ++stages;
  const GemvArgs args = {product, stages};
  KernelLaunch launch;
  launch.kernel = reinterpret_cast<const void*>(&GemvKernel<K, kTiles, kSingle>);
  launch.blocks = dim3(static_cast<unsigned>(
      std::min(product.weights.strips, MultiprocessorCount(stream.device()))));
  if (K::kClusters && !kSingle) {
    launch.cluster = ClusterFor(stream.device(), product.weights.strips);
    launch.blocks.x -= launch.blocks.x % launch.cluster;
  }
  launch.threads = K::kThreads;
  launch.shared = static_cast<size_t>(SharedBytes<K>(product, stages));
  launch.overlap = overlap;
  PreferShared(launch.kernel);
  Launch(stream, launch, &args);
}

template <typename K>
void LaunchKind(const Stream& stream, const GemvProduct& product, bool overlap) {
  if (product.rows == 1) return LaunchTiles<K, 1, true>(stream, product, overlap);
  if (product.rows <= 4) return LaunchTiles<K, TilesFor<K>(4)>(stream, product, overlap);
  LaunchTiles<K, TilesFor<K>(kMostRows<K>)>(stream, product, overlap);
}

template <typename Weights>
void LaunchPacked(const Stream& stream, const GemvProduct& product, bool overlap) {
  WithPackedKind<Weights>(product.weights,
                          [&]<typename K>(K) { LaunchKind<K>(stream, product, overlap); });
}

void LaunchInt8(const Stream& stream, const GemvProduct& product, bool overlap);
void LaunchInt4(const Stream& stream, const GemvProduct& product, bool overlap);
void LaunchInt8FewDigits(const Stream& stream, const GemvProduct& product, bool overlap);
void LaunchInt4FewDigits(const Stream& stream, const GemvProduct& product, bool overlap);

}  // namespace oort::cuda::gemv
