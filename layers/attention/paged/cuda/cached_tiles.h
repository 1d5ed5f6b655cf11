// SPDX-License-Identifier: MIT
// Tiles of keys and values from the paged cache, and what queries of it see. For .cu files.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "cuda/tiles.h"
#include "layers/attention/attention_tiles.h"
#include "layers/attention/paged/cuda/device_paged_attention.h"
#include "layers/attention/paged/cuda/fp8.h"
#include "layers/attention/paged/cuda/seen_tokens.h"

namespace oort::cuda::attention_tiles {

/// Eight int8 times their scale, as f16.
__device__ __forceinline__ uint4 HalvesOf(uint2 bytes, float scale) {
  const int8_t* v = reinterpret_cast<const int8_t*>(&bytes);
  const auto pair = [&](int i) {
    return PackPair<false>(static_cast<float>(v[i]) * scale, static_cast<float>(v[i + 1]) * scale);
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
      queries[k][half] = PackPair<false>(low.x, low.y);
      queries[k][half + 2] = PackPair<false>(high.x, high.y);
    }
  }
}

/// Turns scores into weights, those of tokens that a query does not see into 0.
template <int kDim, int kKeys>
__device__ __forceinline__ void Weigh(const AttentionArgs& a, int first_key,
                                      const int (&position)[2], float (&scores)[kKeys / 8][4],
                                      RunningRows<kDim>& rows) {
  const int t = threadIdx.x % 4;
  const int first[2] = {FirstSeen(a, position[0]), FirstSeen(a, position[1])};
#pragma unroll
  for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int key = first_key + n * 8 + 2 * t + i % 2;
      float score = scores[n][i] * a.scale;
      if (a.softcap > 0) score = a.softcap * tanhf(score / a.softcap);
      const bool seen = key <= position[i / 2] && key >= first[i / 2];
      scores[n][i] = seen ? score : -INFINITY;
    }
  }
  TurnIntoWeights<kDim, kKeys>(scores, rows);
}

}  // namespace oort::cuda::attention_tiles
