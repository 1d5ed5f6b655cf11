// SPDX-License-Identifier: MIT
// Decode attention of heads of queries that share a head of keys (grouped-query attention, Ainslie
// et al. 2023), on tensor cores: up to 16 of them are the rows of a tile, so that keys and values
// are read once for all. A thread block computes one row and one head of keys. Each of its warps
// takes every fourth block of the cache through a ring of its own in shared memory; in the end what
// the warps have is merged. Without a split along the tokens it needs many rows to fill the GPU.
#include "cuda/device.h"
#include "cuda/kernel_tools.h"
#include "cuda/launch.h"
#include "cuda/stream.h"
#include "layers/attention/paged/cuda/cached_tiles.h"

namespace oort::cuda {
namespace {

using namespace attention_tiles;

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * 32;
constexpr int kKeys = static_cast<int>(kKvBlock);
constexpr int kQueries = 16;
constexpr int kStages = 3;

/// Bytes of shared memory: the rings of all warps and, when these are done with, what they merge.
template <int kDim>
struct Shared {
  static constexpr int kTile = kKeys * kDim * 2;  // of keys or values
  static constexpr int kRing = kStages * 2 * kTile;
  static constexpr int kBytes = kWarps * kRing;
  /// In floats: (warps, queries, kDim), then maxima and weights of (warps, queries) each.
  static constexpr int kSums = kWarps * kQueries * kDim;
  static_assert((kSums + 2 * kWarps * kQueries) * 4 <= kBytes);
};

/// Leaves what a warp has for the others.
template <int kDim>
__device__ __forceinline__ void StoreRows(const RunningRows<kDim>& rows, float* shared) {
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int at = static_cast<int>(threadIdx.x) / 32 * kQueries + g + half * 8;
    const float weight = WholeWeight(rows.weight[half]);
    float* largest = shared + Shared<kDim>::kSums + at;
    if (t == 0) largest[0] = rows.largest[half], largest[kWarps * kQueries] = weight;
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n) {
      *reinterpret_cast<float2*>(shared + at * kDim + n * 8 + 2 * t) = {rows.sums[n][2 * half],
                                                                        rows.sums[n][2 * half + 1]};
    }
  }
}

/// Merges the warps' results of one query; a thread has one element of it.
template <int kDim>
__device__ __forceinline__ float MergeRow(const float* shared, int query, int element) {
  const float* largest = shared + Shared<kDim>::kSums + query;
  float most = kLowest;
#pragma unroll
  for (int warp = 0; warp < kWarps; ++warp) most = fmaxf(most, largest[warp * kQueries]);
  float sum = 0, weight = 0;
#pragma unroll
  for (int warp = 0; warp < kWarps; ++warp) {
    const float factor = __expf(largest[warp * kQueries] - most);
    weight += largest[(kWarps + warp) * kQueries] * factor;
    sum += shared[(warp * kQueries + query) * kDim + element] * factor;
  }
  return sum / weight;
}

/// Grid: heads of keys times pieces of 16 of their heads of queries, rows.
template <typename Element, int kDim>
__global__ void __launch_bounds__(kThreads, 2)
    GroupedKernel(const __grid_constant__ AttentionArgs a) {
  extern __shared__ __align__(128) unsigned char grouped_shared[];
  const int warp = threadIdx.x / 32, row = blockIdx.y;
  const int pieces = (a.group + kQueries - 1) / kQueries;
  const int head = blockIdx.x / pieces, piece = blockIdx.x % pieces;
  const int group = min(kQueries, a.group - piece * kQueries);
  const int64_t first_query =
      static_cast<int64_t>(row) * a.heads + head * a.group + piece * kQueries;
  const uint32_t ring = SharedAddress(grouped_shared) + warp * Shared<kDim>::kRing;
  LaunchDependents();
  // Positions and block tables are not written by the kernels of the step.
  const int newest = a.sequences.positions[row];
  const int32_t* table = a.sequences.blocks + a.sequences.first_blocks[row];
  const int first = FirstSeen(a, newest) / kKeys;
  const int blocks = newest / kKeys + 1;
  WaitForPredecessor();

  const auto fetch = [&](int block, int stage) {
    const uint32_t to = ring + stage * 2 * Shared<kDim>::kTile;
    if (block < blocks) {
      CopyTile<Element, kDim, kKeys, 32>(a, a.kv.keys, head, table, block * kKeys, newest + 1, to);
      CopyTile<Element, kDim, kKeys, 32>(a, a.kv.values, head, table, block * kKeys, newest + 1,
                                         to + Shared<kDim>::kTile);
    }
    CommitCopies();
  };
  int block = first + warp;
#pragma unroll
  for (int i = 0; i < kStages - 1; ++i) fetch(block + i * kWarps, i);
  uint32_t queries[kDim / 16][4];
  LoadQueries<kDim>([&](int i) { return a.query + (first_query + min(i, group - 1)) * kDim; },
                    queries);
  const int position[2] = {newest, newest};
  RunningRows<kDim> rows;
  for (int from = 0, to = kStages - 1; block < blocks; block += kWarps) {
    WaitForCopies<kStages - 2>();
    __syncwarp();  // all lanes see the tile, and none reads the one that is filled next
    fetch(block + (kStages - 1) * kWarps, to);
    const uint32_t keys = ring + from * 2 * Shared<kDim>::kTile;
    float scores[kKeys / 8][4];
    Score<false, kDim, kKeys>(queries, keys, scores);
    Weigh<kDim, kKeys>(a, block * kKeys, position, scores, rows);
    AddValues<false, kDim, kKeys>(scores, keys + Shared<kDim>::kTile, rows);
    from = from + 1 == kStages ? 0 : from + 1;
    to = to + 1 == kStages ? 0 : to + 1;
  }
  WaitForCopies<0>();
  __syncthreads();  // the rings are free
  float* const shared = reinterpret_cast<float*>(grouped_shared);
  StoreRows<kDim>(rows, shared);
  __syncthreads();
  for (int i = threadIdx.x; i < group * kDim; i += kThreads) {
    a.out[first_query * kDim + i] = MergeRow<kDim>(shared, i / kDim, i % kDim);
  }
}

template <typename Element, int kDim>
void LaunchGrouped(const Stream& stream, const AttentionArgs& args, bool overlap) {
  AttentionArgs call = args;
  call.group = args.heads / args.kv_heads;
  const int pieces = (call.group + kQueries - 1) / kQueries;
  PreferShared(GroupedKernel<Element, kDim>);
  Launch(stream,
         {dim3(static_cast<unsigned>(args.kv_heads * pieces), static_cast<unsigned>(args.rows)),
          dim3(kThreads), static_cast<size_t>(Shared<kDim>::kBytes), overlap},
         GroupedKernel<Element, kDim>, call);
}

template <typename Element>
void LaunchDims(const Stream& stream, const AttentionArgs& args, bool overlap) {
  args.head_dim == 64 ? LaunchGrouped<Element, 64>(stream, args, overlap)
                      : LaunchGrouped<Element, 128>(stream, args, overlap);
}

}  // namespace

bool GroupsFillGpu(int device, const AttentionArgs& args) {
  const bool fits = args.kv.type != KvType::kF32 && (args.head_dim == 64 || args.head_dim == 128);
  constexpr int64_t kBlocksEach = 2;  // that a multiprocessor has at once
  return fits && args.heads > args.kv_heads && args.rows > kInvariantRows &&
         int64_t{args.rows} * args.kv_heads >= kBlocksEach * MultiprocessorCount(device);
}

void AttendGroups(const Stream& stream, const AttentionArgs& args, bool overlap) {
  switch (args.kv.type) {
    case KvType::kInt8: return LaunchDims<int8_t>(stream, args, overlap);
    case KvType::kFp8: return LaunchDims<Fp8>(stream, args, overlap);
    default: return LaunchDims<__half>(stream, args, overlap);
  }
}

}  // namespace oort::cuda
