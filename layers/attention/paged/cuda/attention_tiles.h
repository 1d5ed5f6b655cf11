// SPDX-License-Identifier: MIT
// Attention of 16 queries with tiles of keys and values on tensor cores, in f16, by one warp. For
// .cu files.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "cuda/tiles.h"
#include "layers/attention/paged/cuda/device_paged_attention.h"
#include "layers/attention/paged/cuda/fp8.h"
#include "layers/attention/paged/cuda/seen_tokens.h"

namespace oort::cuda::attention_tiles {

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

/// Eight int8 times their scale, as f16.
__device__ __forceinline__ uint4 HalvesOf(uint2 bytes, float scale) {
  const int8_t* v = reinterpret_cast<const int8_t*>(&bytes);
  const auto pair = [&](int i) {
    return PackHalves(static_cast<float>(v[i]) * scale, static_cast<float>(v[i + 1]) * scale);
  };
  return {pair(0), pair(2), pair(4), pair(6)};
}
__device__ __forceinline__ void StoreShared16(uint32_t at, uint4 v) {
  asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(at), "r"(v.x), "r"(v.y), "r"(v.z),
               "r"(v.w)
               : "memory");
}

/// Lets kThreads threads bring a tile of keys (or values) from the cache to shared memory, as f16;
/// rows behind `end` become zeros. f16 is on its way when this returns.
template <typename Element, int kDim, int kKeys, int kThreads>
__device__ __forceinline__ void CopyTile(const AttentionArgs& a, const void* cache, int head,
                                         const int32_t* table, int first, int end, uint32_t to) {
  constexpr int kPieces = kDim / 8;
#pragma unroll
  for (int i = 0; i < kKeys * kPieces / kThreads; ++i) {
    const int index = i * kThreads + static_cast<int>(threadIdx.x) % kThreads;
    const int row = index / kPieces, piece = index % kPieces, token = first + row;
    const int known = min(token, end - 1), slot = known % static_cast<int>(kKvBlock);
    const Element* side = static_cast<const Element*>(cache) +
                          table[known / kKvBlock] * a.kv.block_stride + head * a.kv.head_stride;
    const Element* from = side + slot * kDim + piece * 8;
    const uint32_t place = to + PieceAt<kDim>(row, piece);
    if constexpr (sizeof(Element) == 2) {
      CopyOrZero<16, false>(place, from, token < end);
    } else if constexpr (std::is_same_v<Element, Fp8>) {
      const uint2 bytes = *reinterpret_cast<const uint2*>(from);
      StoreShared16(place, token < end ? HalvesOfFp8(bytes) : uint4{0, 0, 0, 0});
    } else {
      const float scale = reinterpret_cast<const float*>(side + kKvBlock * kDim)[slot];
      const uint2 bytes = *reinterpret_cast<const uint2*>(from);
      StoreShared16(place, HalvesOf(bytes, token < end ? scale : 0.0f));
    }
  }
}

/// 16 queries as fragments, in f16. `query_of(i)` is where the i-th begins.
template <int kDim, typename QueryOf>
__device__ __forceinline__ void LoadQueries(const QueryOf& query_of,
                                            uint32_t (&queries)[kDim / 16][4]) {
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float* query = query_of(g + half * 8);
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

/// Scores of 16 queries and kKeys keys.
template <int kDim, int kKeys>
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
template <int kDim, int kKeys>
__device__ __forceinline__ void Weigh(const AttentionArgs& a, int first_key,
                                      const int (&position)[2], float (&scores)[kKeys / 8][4],
                                      RunningRows<kDim>& rows) {
  const int t = threadIdx.x % 4;
  float largest[2] = {rows.largest[0], rows.largest[1]};
  const int first[2] = {FirstSeen(a, position[0]), FirstSeen(a, position[1])};
#pragma unroll
  for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int key = first_key + n * 8 + 2 * t + i % 2;
      float score = scores[n][i] * a.scale;
      if (a.softcap > 0) score = a.softcap * tanhf(score / a.softcap);
      const bool seen = key <= position[i / 2] && key >= first[i / 2];
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

template <int kDim, int kKeys>
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

/// The sum of a row's weights, which the four lanes of the row have in parts.
__device__ __forceinline__ float WholeWeight(float weight) {
  weight += __shfl_xor_sync(~0u, weight, 1);
  return weight + __shfl_xor_sync(~0u, weight, 2);
}

}  // namespace oort::cuda::attention_tiles
