// SPDX-License-Identifier: MIT
// One block a multiprocessor walks over strips of 16 rows. Fetching warps keep a ring of stages in
// shared memory full, by asynchronous copies that begin before the kernel waits for the one that
// makes x. Sixteen warps multiply, each a step or two of every stage, on tensor cores. One more,
// the finisher, adds what they have of a strip and writes the results. They meet only at barriers
// in shared memory, so that nobody waits without need.
//
// x lies in shared memory as the sum of two 16-bit numbers, which stand in two columns of the
// second factor: so products keep the precision of f32 activations at no cost, since the tensor
// cores have eight columns, and the weights pass by once.
//
// Weights of 8 and 4 bits become f16 by or-ing them into the mantissa of 1024. What that adds to a
// sum of 32 products depends on x alone: its negative is where the sum begins.
#include "cuda/compact/few_rows.h"

#include <algorithm>

#include "cuda/compact/few_rows_roles.h"
#include "cuda/kernel_tools.h"
#include "cuda/launch.h"
#include "cuda/stream.h"

namespace oort::cuda {
namespace {

using namespace few_rows;

// ---- The kernel --------------------------------------------------------------------------------

/// Where things lie in dynamic shared memory.
template <typename K>
struct SharedPlan {
  int rows, tiles, steps;
  __host__ __device__ int sums() const { return K::kStages * K::kStageBytes; }
  __host__ __device__ int facts() const {
    return sums() + kBuffers * kWorkers * tiles * kTileSums * 4;
  }
  __host__ __device__ int values() const {
    const int spans = steps * K::kSpansPerStep;
    return facts() + (K::kBf16 ? 0 : spans * rows * static_cast<int>(sizeof(SpanFacts)));
  }
  __host__ __device__ int total() const {
    return values() + steps * kStepColumns * rows * kSplits * 2;
  }
};

constexpr __host__ __device__ int TilesFor(int rows) {
  return rows <= kTileTokens ? 1 : rows <= 2 * kTileTokens ? 2 : 4;
}

template <typename K, int kTiles>
__global__ void __launch_bounds__(K::kThreads, 1)
    FewRowsKernel(const __grid_constant__ FewRowsProduct p) {
  extern __shared__ __align__(128) unsigned char few_rows_shared[];
  __shared__ float squares[kFewRows * kWorkers];
  __shared__ float norm[kFewRows];
  __shared__ __align__(8) uint64_t barriers[2 * (K::kStages + kBuffers)];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const SharedPlan<K> plan{p.rows, kTiles, p.weights.steps};
  const uint32_t base = SharedAddress(few_rows_shared), first_barrier = SharedAddress(barriers);
  const Ring<K> ring{base, first_barrier, first_barrier + K::kStages * 8};
  const uint32_t behind = first_barrier + 2 * K::kStages * 8;
  const Handover handover{reinterpret_cast<float*>(few_rows_shared + plan.sums()), behind,
                          behind + kBuffers * 8};
  LaunchDependents();
  if (threadIdx.x == 0) {
    Turn turn;
    for (int i = 0; i < K::kStages; ++i, turn.Next(K::kStages)) {
      ring.Full(turn).Init(Ring<K>::kFillers);
      ring.Empty(turn).Init(kWorkers);
    }
    for (int i = 0; i < kBuffers; ++i) {
      handover.Full({i, 0}).Init(kWorkers);
      handover.Empty({i, 0}).Init(1);
    }
#if __CUDA_ARCH__ >= 900
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
  }
  __syncthreads();
  if (warp > kWorkers) {
    // Weights do not depend on the kernel before.
    Fetch<K>(p.weights, ring, warp - kWorkers - 1);
    return;
  }
  float4 gain[kBatch] = {};
  if (p.gain != nullptr && warp < kWorkers) LoadBatch(p.gain, 0, p.columns, gain);
  WaitForPredecessor();
  const StagedX staged{reinterpret_cast<uint16_t*>(few_rows_shared + plan.values()),
                       reinterpret_cast<SpanFacts*>(few_rows_shared + plan.facts()), p.rows};
  if (warp < kWorkers) Stage<K>(p, staged, squares, gain);
  // Everybody but the fetchers.
  asm volatile("bar.sync 1, %0;" ::"n"((kWorkers + 1) * 32) : "memory");
  if (warp == kWorkers) {
    if (lane < p.rows) {
      float sum = 0;
      for (int i = 0; i < kWorkers; ++i) sum += squares[lane * kWorkers + i];
      norm[lane] =
          p.gain != nullptr ? rsqrtf(sum / static_cast<float>(p.columns) + p.epsilon) : 1.0f;
    }
    __syncwarp();
    FinishStrips<kTiles>(p, handover, norm);
    return;
  }
  WorkerX x;
  x.g = lane / 4, x.t = lane % 4, x.rows = p.rows, x.columns = p.rows * kSplits;
  x.values = base + plan.values() + (x.g * K::kSpan + x.t * K::kLaneColumns) * 2;
  x.facts = base + plan.facts() + (x.t < p.rows ? x.t : 0) * static_cast<int>(sizeof(SpanFacts));
  Work<K, kTiles>(p.weights, ring, x, handover);
}

// ---- Launches ----------------------------------------------------------------------------------

template <typename K>
int64_t SharedBytes(const FewRowsProduct& p) {
  return SharedPlan<K>{p.rows, TilesFor(p.rows), p.weights.steps}.total();
}

template <typename K, int kTiles>
void LaunchTiles(const Stream& stream, const FewRowsProduct& product, bool overlap) {
  const auto kernel = FewRowsKernel<K, kTiles>;
  const int blocks = std::min(product.weights.strips, MultiprocessorCount(stream.device()));
  PreferShared(kernel);
  Launch(stream,
         {dim3(static_cast<unsigned>(blocks)), dim3(K::kThreads),
          static_cast<size_t>(SharedBytes<K>(product)), overlap},
         kernel, product);
}

template <typename K>
void LaunchKind(const Stream& stream, const FewRowsProduct& product, bool overlap) {
  switch (TilesFor(product.rows)) {
    case 1: LaunchTiles<K, 1>(stream, product, overlap); break;
    case 2: LaunchTiles<K, 2>(stream, product, overlap); break;
    default: LaunchTiles<K, 4>(stream, product, overlap);
  }
}

/// Calls visit with the Kind of these weights.
template <typename Visit>
auto WithKind(const DeviceWeights& w, const Visit& visit) {
  const auto scaled = [&]<typename Weights, typename Scale>(Weights, Scale) {
    if (w.has_minimum) {
      return w.chunk_scales ? visit(Kind<Weights, Scale, true, true>())
                            : visit(Kind<Weights, Scale, true, false>());
    }
    return w.chunk_scales ? visit(Kind<Weights, Scale, false, true>())
                          : visit(Kind<Weights, Scale, false, false>());
  };
  const auto packed = [&]<typename Weights>(Weights weights) {
    return w.f32_scales ? scaled(weights, float2()) : scaled(weights, __half2());
  };
  switch (w.format) {
    case DeviceFormat::kBf16: return visit(Kind<Bf16Weights, __half2, false, true>());
    case DeviceFormat::kF16: return visit(Kind<F16Weights, __half2, false, true>());
    case DeviceFormat::kInt8: return packed(Int8Weights());
    case DeviceFormat::kInt4: break;
  }
  return packed(Int4Weights());
}

}  // namespace

int64_t FewRowsShared(const FewRowsProduct& product) {
  return WithKind(product.weights, [&]<typename K>(K) { return SharedBytes<K>(product); });
}

int64_t MostSharedBytes(int device) {
  int bytes = 0;
  Check(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
        "the shared memory of a block");
  return bytes;
}

void RunFewRows(const Stream& stream, const FewRowsProduct& product, bool overlap) {
  WithKind(product.weights, [&]<typename K>(K) { LaunchKind<K>(stream, product, overlap); });
}

}  // namespace oort::cuda
