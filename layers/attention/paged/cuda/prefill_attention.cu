// SPDX-License-Identifier: MIT
// Prefill attention, in the manner of FlashAttention-2 (Dao 2023): a thread block computes 64
// queries of one head, a warp 16 of them, and walks over the keys in tiles of 64. Scores stay in
// registers and become weights there by an online softmax, while the keys and values of the next
// tile are loaded.
#include <cuda_fp16.h>

#include "cuda/kernel_tools.h"
#include "cuda/launch.h"
#include "cuda/stream.h"
#include "cuda/tiles.h"
#include "layers/attention/paged/cuda/device_paged_attention.h"

namespace oort::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * 32;
constexpr int kQueries = kWarps * 16;
static_assert(kQueries == SequenceTable::kTileRows);
constexpr int kKeys = 64;
constexpr float kLowest = -1e30f;  // finite, so that differences are no NaN

/// The byte offset of a 16-byte piece of a row in a tile. Pieces are swizzled by the row, to avoid
/// bank conflicts.
template <int kDim>
__device__ __forceinline__ uint32_t PieceAt(int row, int piece) {
  return static_cast<uint32_t>(row * kDim * 2 + ((piece ^ (row % 8)) * 16));
}

__device__ __forceinline__ void LoadMatrices(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}
__device__ __forceinline__ void LoadTransposed(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}
__device__ __forceinline__ uint32_t PackHalves(float low, float high) {
  const __half2 pair = __floats2half2_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}

/// Begins to copy a tile of keys (or values) from the cache; rows behind `end` become zeros.
template <int kDim>
__device__ __forceinline__ void CopyTile(const AttentionArgs& a, const void* cache, int head,
                                         const int32_t* table, int first, int end, uint32_t to) {
  constexpr int kPieces = kDim / 8;
#pragma unroll
  for (int i = 0; i < kKeys * kPieces / kThreads; ++i) {
    const int index = i * kThreads + static_cast<int>(threadIdx.x);
    const int row = index / kPieces, piece = index % kPieces, token = first + row;
    const int known = min(token, end - 1);
    const __half* from = static_cast<const __half*>(cache) +
                         table[known / kKvBlock] * a.kv.block_stride + head * a.kv.head_stride +
                         known % kKvBlock * kDim + piece * 8;
    CopyOrZero<16, false>(to + PieceAt<kDim>(row, piece), from, token < end);
  }
}

/// The queries of a warp as fragments, in f16: of rows from `first` on, of which `end` is behind
/// the last.
template <int kDim>
__device__ __forceinline__ void LoadQueries(const AttentionArgs& a, int head, int first, int end,
                                            uint32_t (&queries)[kDim / 16][4]) {
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = min(first + g + half * 8, end - 1);
    const float* query = a.query + (static_cast<int64_t>(row) * a.heads + head) * kDim;
#pragma unroll
    for (int k = 0; k < kDim / 16; ++k) {
      const float2 low = *reinterpret_cast<const float2*>(query + k * 16 + 2 * t);
      const float2 high = *reinterpret_cast<const float2*>(query + k * 16 + 8 + 2 * t);
      queries[k][half] = PackHalves(low.x, low.y);
      queries[k][half + 2] = PackHalves(high.x, high.y);
    }
  }
}

/// The online softmax of the two rows of a lane, g and g + 8.
template <int kDim>
struct RunningRows {
  float largest[2] = {kLowest, kLowest}, weight[2] = {0, 0};
  float sums[kDim / 8][4] = {};
};

/// Scores of 16 queries and 64 keys.
template <int kDim>
__device__ __forceinline__ void Score(const uint32_t (&queries)[kDim / 16][4], uint32_t keys,
                                      float (&scores)[kKeys / 8][4]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int n = 0; n < kKeys / 8; ++n) scores[n][0] = scores[n][1] = scores[n][2] = scores[n][3] = 0;
#pragma unroll
  for (int k = 0; k < kDim / 16; ++k) {
#pragma unroll
    for (int n = 0; n < kKeys / 8; n += 2) {
      // Matrices: keys n*8.. and (n+1)*8.., each with elements k*16.. and k*16+8...
      const int row = n * 8 + lane / 16 * 8 + lane % 8, piece = k * 2 + lane / 8 % 2;
      uint32_t b[4];
      LoadMatrices(b, keys + PieceAt<kDim>(row, piece));
      MultiplyTile<false>(scores[n], queries[k], b[0], b[1]);
      MultiplyTile<false>(scores[n + 1], queries[k], b[2], b[3]);
    }
  }
}

/// Turns scores into weights and rescales what was summed so far to the new maximum.
template <int kDim>
__device__ __forceinline__ void Weigh(const AttentionArgs& a, int first_key,
                                      const int (&position)[2], float (&scores)[kKeys / 8][4],
                                      RunningRows<kDim>& rows) {
  const int t = threadIdx.x % 4;
  float largest[2] = {rows.largest[0], rows.largest[1]};
#pragma unroll
  for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int key = first_key + n * 8 + 2 * t + i % 2, last = position[i / 2];
      float score = scores[n][i] * a.scale;
      if (a.softcap > 0) score = a.softcap * tanhf(score / a.softcap);
      const bool seen = key <= last && (a.window == 0 || last - key < a.window);
      scores[n][i] = seen ? score : kLowest;
      largest[i / 2] = fmaxf(largest[i / 2], scores[n][i]);
    }
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    largest[half] = fmaxf(largest[half], __shfl_xor_sync(~0u, largest[half], 1));
    largest[half] = fmaxf(largest[half], __shfl_xor_sync(~0u, largest[half], 2));
    const float shrink = __expf(rows.largest[half] - largest[half]);
    rows.largest[half] = largest[half];
    rows.weight[half] *= shrink;
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n) {
      rows.sums[n][2 * half] *= shrink;
      rows.sums[n][2 * half + 1] *= shrink;
    }
  }
#pragma unroll
  for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      // The row has seen no token yet: its maximum stays kLowest, and its weights must be 0.
      const float weight =
          scores[n][i] > kLowest ? __expf(scores[n][i] - rows.largest[i / 2]) : 0.0f;
      scores[n][i] = weight;
      rows.weight[i / 2] += weight;
    }
  }
}

template <int kDim>
__device__ __forceinline__ void AddValues(const float (&weights)[kKeys / 8][4], uint32_t values,
                                          RunningRows<kDim>& rows) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int k = 0; k < kKeys / 16; ++k) {
    const uint32_t a[4] = {PackHalves(weights[2 * k][0], weights[2 * k][1]),
                           PackHalves(weights[2 * k][2], weights[2 * k][3]),
                           PackHalves(weights[2 * k + 1][0], weights[2 * k + 1][1]),
                           PackHalves(weights[2 * k + 1][2], weights[2 * k + 1][3])};
#pragma unroll
    for (int n = 0; n < kDim / 8; n += 2) {
      // Matrices: keys k*16.. and k*16+8.., each with elements n*8.. and (n+1)*8...
      const int row = k * 16 + lane / 8 % 2 * 8 + lane % 8, piece = n + lane / 16;
      uint32_t b[4];
      LoadTransposed(b, values + PieceAt<kDim>(row, piece));
      MultiplyTile<false>(rows.sums[n], a, b[0], b[1]);
      MultiplyTile<false>(rows.sums[n + 1], a, b[2], b[3]);
    }
  }
}

/// Grid: tiles of queries and heads. The last tile comes first, because of one prompt it has the
/// most keys.
template <int kDim>
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
  const int lowest = a.window > 0 ? max(0, start + 1 - a.window) : 0;
  const int first_tile = lowest / kKeys, tiles = (end + kKeys - 1) / kKeys;

  const auto fetch = [&](int tile) {
    const uint32_t to = base + static_cast<uint32_t>(tile % 2) * 2 * kTileBytes;
    CopyTile<kDim>(a, a.kv.keys, kv_head, table, tile * kKeys, end, to);
    CopyTile<kDim>(a, a.kv.values, kv_head, table, tile * kKeys, end, to + kTileBytes);
    CommitCopies();
  };
  fetch(first_tile);
  uint32_t queries[kDim / 16][4];
  const int warp_row = first_row + warp * 16;
  LoadQueries<kDim>(a, head, warp_row, end_row, queries);
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
    Score<kDim>(queries, keys, scores);
    Weigh<kDim>(a, tile * kKeys, position, scores, rows);
    AddValues<kDim>(scores, keys + kTileBytes, rows);
    __syncthreads();
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float weight = rows.weight[half];
    weight += __shfl_xor_sync(~0u, weight, 1);
    weight += __shfl_xor_sync(~0u, weight, 2);
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

template <int kDim>
void LaunchPrompt(const Stream& stream, const AttentionArgs& args, int64_t tiles, bool overlap) {
  Launch(stream,
         {dim3(static_cast<unsigned>(tiles), static_cast<unsigned>(args.heads)), dim3(kThreads),
          size_t{4} * kKeys * kDim * 2, overlap},
         PromptKernel<kDim>, args);
}

}  // namespace

bool CanAttendTiles(const AttentionArgs& args) {
  return !args.kv.f32 && (args.head_dim == 64 || args.head_dim == 128);
}

void AttendTiles(const Stream& stream, const AttentionArgs& args, int64_t tiles, bool overlap) {
  args.head_dim == 64 ? LaunchPrompt<64>(stream, args, tiles, overlap)
                      : LaunchPrompt<128>(stream, args, tiles, overlap);
}

}  // namespace oort::cuda
