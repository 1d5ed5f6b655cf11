// SPDX-License-Identifier: MIT
// Weights of experts as tiles of bf16 for the tensor cores, and what comes behind their products.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "cuda/error.h"
#include "cuda/launch.h"
#include "cuda/tiles.h"
#include "layers/experts/cuda/expert_products.h"
#include "layers/experts/cuda/split_number.cuh"
#include "layers/quantized_linear/cuda/packed_tiles.h"
#include "layers/quantized_linear/cuda/row_activation.h"

namespace oort::cuda::experts {

/// A kernel that declares shared memory itself has to ask where both kinds together are much;
/// Launch asks for one kind alone. `most`: the dynamic memory of its largest launch, which all of
/// them ask for, as threads may launch it at the same time.
template <typename... P>
void AllowShared(void (*kernel)(P...), size_t dynamic, size_t declared, size_t most) {
  if (dynamic > kPlainSharedBytes || most + declared <= kPlainSharedBytes) return;
  Check(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                             cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(most)),
        "asking for shared memory");
}

// ---- Formats -----------------------------------------------------------------------------------

/// kTerms: bf16 numbers that add up to a weight, which packed ones are times a scale.
struct Bf16Kind {
  static constexpr bool kPacked = false, kNibbles = false, kHasMinimum = false;
  static constexpr int kTerms = 1, kStages = 4;
};
struct F16Kind : Bf16Kind {
  static constexpr int kTerms = 2;
};
template <bool kFour, bool kMinimum>
struct PackedKind {
  static constexpr bool kPacked = true, kNibbles = kFour, kHasMinimum = kMinimum;
  static constexpr int kTerms = 1, kStages = kFour ? 8 : 6;
};

/// Bytes of a strip's step: 16 rows by 64 columns.
inline __host__ __device__ int StepBytes(const DeviceWeights& w) {
  return IsPacked(w.format) ? RecordBytes(w) : kStripRows * kStepColumns * 2;
}

/// A lane's weights of a chunk: rows g and g + 8, columns 8t … 8t+7, as two tiles (packed_tiles.h).
template <typename K>
struct ChunkTiles {
  uint32_t terms[K::kTerms][2][4];
  /// Of rows g and g + 8.
  float scale[2] = {1.0f, 1.0f}, minimum[2] = {};
};

/// Two f16 numbers as sums of two bf16 each.
__device__ __forceinline__ void SplitHalves(uint32_t halves, uint32_t& first, uint32_t& rest) {
  const float2 both = __half22float2(*reinterpret_cast<const __half2*>(&halves));
  float a = both.x, b = both.y;
  const __nv_bfloat162 high(TakePart(a), TakePart(b)), low(TakePart(a), TakePart(b));
  first = *reinterpret_cast<const uint32_t*>(&high);
  rest = *reinterpret_cast<const uint32_t*>(&low);
}

/// Where a lane finds its scales in the record of a step, and how they are written.
struct ScalePlaces {
  PackedScales places;
  int weight_bytes, scale_bytes;
  bool f32;
  __device__ __forceinline__ explicit ScalePlaces(const DeviceWeights& w)
      : places(w.f32_scales ? PlacesOfScales<float>(w.chunk_scales)
                            : PlacesOfScales<__half>(w.chunk_scales)),
        weight_bytes(WeightBytes(w.format)),
        scale_bytes(ScaleBytes(w)),
        f32(w.f32_scales) {}
  /// Those of rows g and g + 8, or the minimums behind the scales.
  __device__ __forceinline__ float2 Load(uint32_t record, int chunk, bool minimums) const {
    const uint32_t at = record + weight_bytes + (minimums ? scale_bytes : 0) + places.at +
                        chunk * places.chunk_bytes;
    if (f32) return LoadShared8(at);
    const uint32_t bits = LoadShared4(at);
    return __half22float2(*reinterpret_cast<const __half2*>(&bits));
  }
};

/// `step`: in shared memory. Of plain weights each lane has its own pieces there.
template <typename K>
__device__ __forceinline__ ChunkTiles<K> LoadChunk(uint32_t step, int chunk,
                                                   const ScalePlaces& scales, bool zero_based) {
  ChunkTiles<K> tiles;
  if constexpr (K::kPacked) {
    UnpackWhole<K::kNibbles>(LoadPackedWords<K::kNibbles>(step, chunk), chunk, zero_based,
                             tiles.terms[0]);
    const float2 scale = scales.Load(step, chunk, false);
    tiles.scale[0] = scale.x, tiles.scale[1] = scale.y;
    if constexpr (K::kHasMinimum) {
      const float2 minimum = scales.Load(step, chunk, true);
      tiles.minimum[0] = minimum.x, tiles.minimum[1] = minimum.y;
    }
  } else {
#pragma unroll
    for (int upper = 0; upper < 2; ++upper) {
      const uint4 four =
          LoadShared16(step + ((chunk * 2 + upper) * 32 + static_cast<int>(threadIdx.x % 32)) * 16);
      const uint32_t words[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
      for (int pair = 0; pair < 4; ++pair) {
        uint32_t& first = tiles.terms[0][pair / 2][pair % 2 * 2 + upper];
        if constexpr (K::kTerms == 2) {
          SplitHalves(words[pair], first, tiles.terms[1][pair / 2][pair % 2 * 2 + upper]);
        } else {
          first = words[pair];
        }
      }
    }
  }
  return tiles;
}

/// Begins to copy what LoadChunk reads. For whole warps.
template <typename K>
__device__ __forceinline__ void FetchStrip(const DeviceWeights& w, int64_t strip, int step,
                                           uint32_t to) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  if constexpr (K::kPacked) {
    const int bytes = RecordBytes(w);
    const char* const record =
        static_cast<const char*>(w.data) + (strip * w.steps + step) * int64_t{bytes};
    for (int at = lane * 16; at < bytes; at += 32 * 16) CopyAsync16(to + at, record + at);
  } else {
    const char* const first =
        static_cast<const char*>(w.data) +
        ((strip * kStripRows + lane / 4) * w.row_elements + step * kStepColumns + lane % 4 * 8) * 2;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int64_t upper = i % 2 * 8 * w.row_elements * 2;
      CopyAsync16(to + (i * 32 + lane) * 16, first + upper + i / 2 * kChunkColumns * 2);
    }
  }
}

/// What 16 rows of weights give for eight rows of x in a chunk, added to `sums`. `x`: a lane's
/// eight columns, of each plane.
template <typename K, int kPlanes>
__device__ __forceinline__ void MultiplyChunk(const ChunkTiles<K>& tiles, const uint4 (&x)[kPlanes],
                                              float (&sums)[4]) {
  float products[4] = {};
#pragma unroll
  for (int term = K::kTerms - 1; term >= 0; --term) {
#pragma unroll
    for (int plane = kPlanes - 1; plane >= 0; --plane) {  // the small ones first
      MultiplyTile<true>(products, tiles.terms[term][0], x[plane].x, x[plane].y);
      MultiplyTile<true>(products, tiles.terms[term][1], x[plane].z, x[plane].w);
    }
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) sums[i] = fmaf(tiles.scale[i / 2], products[i], sums[i]);
  if constexpr (K::kHasMinimum) {
    constexpr uint32_t kOnes = 0x3f803f80u;
    const uint32_t ones[4] = {kOnes, kOnes, kOnes, kOnes};
    float all[4] = {};
#pragma unroll
    for (int plane = kPlanes - 1; plane >= 0; --plane) {
      MultiplyTile<true>(all, ones, x[plane].x, x[plane].y);
      MultiplyTile<true>(all, ones, x[plane].z, x[plane].w);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[i] = fmaf(tiles.minimum[i / 2], all[i], sums[i]);
  }
}

// ---- Results -----------------------------------------------------------------------------------

/// What gate and up become.
__device__ __forceinline__ float Gate(const ExpertProduct& p, float gate, float up) {
  if (p.limit == 0) return Activate(p.activation, gate) * up;
  constexpr float kSlope = 1.702f;
  const float g = fminf(gate, p.limit), u = fminf(fmaxf(up, -p.limit), p.limit);
  return (u + 1.0f) * (g / (1.0f + expf(-kSlope * g)));
}

/// A pair of the tile that is computed.
struct TilePair {
  int place;  ///< in the order of pairs
  int pair;
};

/// A number of the gate and of up in column `column` of the hidden row; zeros fill the row. A call:
/// written out for each number of a lane it would take long to compile.
__device__ __noinline__ inline void StoreHidden(const ExpertProduct& p, int expert, int column,
                                                const TilePair& at, float gate, float up) {
  float value = 0;
  if (column < p.rows) {
    const float factor = p.scales_inputs ? p.pairs.weights[at.pair] : 1.0f;
    const int64_t row = int64_t{expert} * p.rows + column;
    gate = fmaf(gate, factor, p.bias != nullptr ? p.bias[row] : 0.0f);
    up = fmaf(up, factor, p.up_bias != nullptr ? p.up_bias[row] : 0.0f);
    value = Gate(p, gate, up);
  }
  auto* const to =
      static_cast<__nv_bfloat16*>(p.hidden) + at.place * SplitRowElements(p.rows, p.planes);
  for (int plane = 0; plane < p.planes; ++plane) {
    to[SplitPlace(column, plane, p.planes)] = TakePart(value);
  }
}

__device__ __forceinline__ void StoreResult(const ExpertProduct& p, int expert, int column,
                                            const TilePair& at, float value) {
  if (column >= p.rows) return;
  if (p.bias != nullptr) value += p.bias[int64_t{expert} * p.rows + column];
  p.y[int64_t{at.pair} * p.rows + column] = value;
}

}  // namespace oort::cuda::experts
