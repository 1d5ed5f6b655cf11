// SPDX-License-Identifier: MIT
// Prefill attention, in the manner of FlashAttention-2 (Dao 2023): a thread block computes 64
// queries of one head, a warp 16 of them, and walks over the keys in tiles of 64. Scores stay in
// registers and become weights there by an online softmax, while the keys and values of the next
// tile are loaded.
#include "cuda/kernel_tools.h"
#include "cuda/launch.h"
#include "cuda/stream.h"
#include "layers/attention/paged/cuda/cached_tiles.h"

namespace oort::cuda {
namespace {

using namespace attention_tiles;

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * 32;
constexpr int kQueries = kWarps * 16;
static_assert(kQueries == SequenceTable::kTileRows);
constexpr int kKeys = 64;

/// Grid: tiles of queries and heads. The last tile comes first, because of one prompt it has the
/// most keys.
template <typename Element, int kDim>
__global__ void __launch_bounds__(kThreads) PromptKernel(const __grid_constant__ AttentionArgs a) {
  extern __shared__ __align__(128) unsigned char prompt_shared[];
  constexpr uint32_t kTileBytes = kKeys * kDim * 2;
  const uint32_t base = SharedAddress(prompt_shared);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
  const int head = blockIdx.y, kv_head = head / (a.heads / a.kv_heads);
  LaunchDependents();
  WaitForPredecessor();
  const int32_t* tile_of = a.sequences.tiles + 2 * (gridDim.x - 1 - blockIdx.x);
  const int first_row = tile_of[0], end_row = first_row + tile_of[1];
  const int32_t* table = a.sequences.blocks + a.sequences.first_blocks[first_row];
  const int start = a.sequences.positions[first_row];  // rows are neighbours from here on
  const int end = start + end_row - first_row;
  const int lowest = FirstSeen(a, start);
  const int first_tile = lowest / kKeys, tiles = (end + kKeys - 1) / kKeys;

  const auto fetch = [&](int tile) {
    const uint32_t to = base + static_cast<uint32_t>(tile % 2) * 2 * kTileBytes;
    CopyTile<Element, kDim, kKeys, kThreads>(a, a.kv.keys, kv_head, table, tile * kKeys, end, to);
    CopyTile<Element, kDim, kKeys, kThreads>(a, a.kv.values, kv_head, table, tile * kKeys, end,
                                             to + kTileBytes);
    CommitCopies();
  };
  fetch(first_tile);
  uint32_t queries[kDim / 16][4];
  const int warp_row = first_row + warp * 16;
  LoadQueries<kDim>(
      [&](int i) {
        const int row = min(warp_row + i, end_row - 1);
        return a.query + (static_cast<int64_t>(row) * a.heads + head) * kDim;
      },
      queries);
  const int position[2] = {start + warp * 16 + g, start + warp * 16 + g + 8};
  RunningRows<kDim> rows;
  for (int tile = first_tile; tile < tiles; ++tile) {
    if (tile + 1 < tiles) {
      fetch(tile + 1);
      WaitForCopies<1>();
    } else {
      WaitForCopies<0>();
    }
    __syncthreads();
    const uint32_t keys = base + static_cast<uint32_t>(tile % 2) * 2 * kTileBytes;
    float scores[kKeys / 8][4];
    Score<false, kDim, kKeys>(queries, keys, scores);
    Weigh<kDim, kKeys>(a, tile * kKeys, position, scores, rows);
    AddValues<false, kDim, kKeys>(scores, keys + kTileBytes, rows);
    __syncthreads();
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float weight = WholeWeight(rows.weight[half]);
    const int row = warp_row + g + half * 8;
    if (row >= end_row) continue;
    float* out = a.out + (static_cast<int64_t>(row) * a.heads + head) * kDim;
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n) {
      *reinterpret_cast<float2*>(out + n * 8 + 2 * t) = {rows.sums[n][2 * half] / weight,
                                                         rows.sums[n][2 * half + 1] / weight};
    }
  }
}

template <typename Element, int kDim>
void LaunchPrompt(const Stream& stream, const AttentionArgs& args, int64_t tiles, bool overlap) {
  Launch(stream,
         {dim3(static_cast<unsigned>(tiles), static_cast<unsigned>(args.heads)), dim3(kThreads),
          size_t{4} * kKeys * kDim * 2, overlap},
         PromptKernel<Element, kDim>, args);
}

template <typename Element>
void LaunchDims(const Stream& stream, const AttentionArgs& args, int64_t tiles, bool overlap) {
  args.head_dim == 64 ? LaunchPrompt<Element, 64>(stream, args, tiles, overlap)
                      : LaunchPrompt<Element, 128>(stream, args, tiles, overlap);
}

}  // namespace

bool CanAttendTiles(const AttentionArgs& args) {
  return args.kv.type != KvType::kF32 && (args.head_dim == 64 || args.head_dim == 128);
}

void AttendTiles(const Stream& stream, const AttentionArgs& args, int64_t tiles, bool overlap) {
  switch (args.kv.type) {
    case KvType::kInt8: return LaunchDims<int8_t>(stream, args, tiles, overlap);
    case KvType::kFp8: return LaunchDims<Fp8>(stream, args, tiles, overlap);
    default: return LaunchDims<__half>(stream, args, tiles, overlap);
  }
}

}  // namespace oort::cuda
