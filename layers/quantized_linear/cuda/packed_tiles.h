// SPDX-License-Identifier: MIT
// Records of packed weights in shared memory become tiles of f16 in registers. For .cu files.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

#include "cuda/tiles.h"
#include "layers/quantized_linear/cuda/device_weights.h"

namespace oort::cuda {

/// What a lane has of the weights of a chunk; of 4 bits, of both chunks of the record.
struct PackedWords {
  uint32_t words[4];
};
template <bool kNibbles>
__device__ __forceinline__ PackedWords LoadPackedWords(uint32_t record, int chunk) {
  const int lane = threadIdx.x % 32;
  const uint4 four = LoadShared16(record + (kNibbles ? lane : chunk * 32 + lane) * 16);
  return {{four.x, four.y, four.z, four.w}};
}

/// Where a lane finds its scales (or minimums) among those of a record.
struct PackedScales {
  uint32_t at, chunk_bytes;
};
template <typename Scale>
__device__ __forceinline__ PackedScales PlacesOfScales(bool by_chunk) {
  constexpr uint32_t kPair = 2 * sizeof(Scale);  // of rows g and g + 8
  const uint32_t g = threadIdx.x % 32 / 4;
  return by_chunk ? PackedScales{g * kChunksPerStep * kPair, kPair} : PackedScales{g * kPair, 0};
}

/// A scale (or minimum) of a row, as it meets two weights at once.
template <typename Scale>
using RowScale = std::conditional_t<sizeof(Scale) == 4, float, __half2>;

/// Those of rows g and g + 8 of a chunk.
template <typename Scale>
__device__ __forceinline__ void LoadScales(uint32_t scales, const PackedScales& places, int chunk,
                                           RowScale<Scale> (&rows)[2]) {
  const uint32_t at = scales + places.at + chunk * places.chunk_bytes;
  if constexpr (std::is_same_v<RowScale<Scale>, float>) {
    const float2 both = LoadShared8(at);
    rows[0] = both.x, rows[1] = both.y;
  } else {
    const uint32_t bits = LoadShared4(at);
    const __half2 both = *reinterpret_cast<const __half2*>(&bits);
    rows[0] = __low2half2(both), rows[1] = __high2half2(both);
  }
}

/// Two whole numbers times a scale plus a minimum, as f16, rounded once.
__device__ __forceinline__ __half2 Scaled(__half2 whole, __half2 scale, __half2 minimum) {
  return __hfma2(whole, scale, minimum);
}
__device__ __forceinline__ __half2 Scaled(__half2 whole, float scale, float minimum) {
  const float2 wide = __half22float2(whole);
  return __floats2half2_rn(fmaf(wide.x, scale, minimum), fmaf(wide.y, scale, minimum));
}

/// The weights of a lane in a chunk: rows g and g + 8, columns 8t … 8t+7, as two tiles of 16 by 16.
/// Column 8t + 4j + 2h + e is column 2t + 8h + e of tile j; x has its columns in the same order.
template <bool kNibbles, typename Scale>
__device__ __forceinline__ void UnpackTiles(const PackedWords& packed, int chunk, __half2 offset,
                                            const RowScale<Scale> (&scale)[2],
                                            const RowScale<Scale> (&minimum)[2],
                                            uint32_t (&tiles)[2][4]) {
#pragma unroll
  for (int upper = 0; upper < 2; ++upper) {
#pragma unroll
    for (int pair = 0; pair < 4; ++pair) {
      // The bits of 1024 + q in f16.
      uint32_t bits;
      if constexpr (kNibbles) {
        bits = (packed.words[chunk * 2 + upper] >> (4 * pair) & 0x000f000fu) | 0x64006400u;
      } else {
        bits = __byte_perm(packed.words[upper * 2 + pair / 2], 0x64646464u,
                           pair % 2 ? 0x4342 : 0x4140);
      }
      const __half2 whole = __hsub2(*reinterpret_cast<const __half2*>(&bits), offset);
      const __half2 value = Scaled(whole, scale[upper], minimum[upper]);
      tiles[pair / 2][pair % 2 * 2 + upper] = *reinterpret_cast<const uint32_t*>(&value);
    }
  }
}

/// The same as whole numbers in bf16, which are exact, without scales.
template <bool kNibbles>
__device__ __forceinline__ void UnpackWhole(const PackedWords& packed, int chunk, bool zero_based,
                                            uint32_t (&tiles)[2][4]) {
  const __nv_bfloat162 offset = __float2bfloat162_rn(zero_based ? 128.0f : 136.0f);
#pragma unroll
  for (int upper = 0; upper < 2; ++upper) {
#pragma unroll
    for (int pair = 0; pair < 4; ++pair) {
      uint32_t& tile = tiles[pair / 2][pair % 2 * 2 + upper];
      if constexpr (kNibbles) {
        // The bits of 128 + q.
        const uint32_t bits =
            (packed.words[chunk * 2 + upper] >> (4 * pair) & 0x000f000fu) | 0x43004300u;
        const __nv_bfloat162 whole =
            __hsub2(*reinterpret_cast<const __nv_bfloat162*>(&bits), offset);
        tile = *reinterpret_cast<const uint32_t*>(&whole);
      } else {
        // bf16 has no room for 128 and eight bits: the upper halves of f32 numbers are taken.
        const uint32_t word = packed.words[upper * 2 + pair / 2];
        constexpr float kBias = 8388608.0f + 128.0f;
        const float first = __uint_as_float(__byte_perm(word, 0x4b000000u, 0x7440 + pair % 2 * 2));
        const float next =
            __uint_as_float(__byte_perm(word, 0x4b000000u, 0x7440 + pair % 2 * 2 + 1));
        tile = __byte_perm(__float_as_uint(first - kBias), __float_as_uint(next - kBias), 0x7632);
      }
    }
  }
}

/// What is taken from the bits that stand for a weight q: 1024, and what q has too much.
__device__ __forceinline__ __half2 PackedOffset(bool nibbles, bool zero_based) {
  return __float2half2_rn(!nibbles ? 1152.0f : zero_based ? 1024.0f : 1032.0f);
}

}  // namespace oort::cuda
