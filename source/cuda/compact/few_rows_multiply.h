// SPDX-License-Identifier: MIT
// What a worker does with a stage of weights: records into registers, widened, times x. For
// few_rows.cu alone.
#pragma once

#include "cuda/compact/few_rows_parts.h"

namespace oort::cuda::few_rows {

/// Results of rows g and g + 8 of a strip, for row t of each tile of x: sums with both numbers that
/// add up to x (elements 0 and 1 for row g, 2 and 3 for row g + 8).
template <int kTiles>
using Sums = float[kTiles][4];

__device__ __forceinline__ uint4 LoadShared16(uint32_t at) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(at));
  return v;
}

/// Pairs of scales (or minimums) of the spans of a record.
template <typename K>
__device__ __forceinline__ void LoadPairs(uint32_t at, int g, float2 (&pairs)[K::kSpansPerStep]) {
  constexpr int kWords = K::kSpansPerStep * static_cast<int>(sizeof(typename K::ScaleType)) / 4;
  const uint32_t from = at + g * kWords * 4;
  uint32_t bits[4];
  if constexpr (kWords == 1) {
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(bits[0]) : "r"(from));
  } else if constexpr (kWords == 2) {
    asm volatile("ld.shared.v2.u32 {%0,%1}, [%2];" : "=r"(bits[0]), "=r"(bits[1]) : "r"(from));
  } else {
    const uint4 four = LoadShared16(from);
    bits[0] = four.x, bits[1] = four.y, bits[2] = four.z, bits[3] = four.w;
  }
#pragma unroll
  for (int i = 0; i < K::kSpansPerStep; ++i) {
    if constexpr (sizeof(typename K::ScaleType) == 4) {
      pairs[i] = __half22float2(*reinterpret_cast<__half2*>(&bits[i]));
    } else {
      pairs[i] = {__uint_as_float(bits[2 * i]), __uint_as_float(bits[2 * i + 1])};
    }
  }
}

/// Where a lane finds its part of x.
struct WorkerX {
  uint32_t values, facts;  ///< addresses of column g and row t of the first tile's first span
  int columns, rows;       ///< of the second factor, of x
  int g, t;

  /// Eight neighbouring columns of a span.
  template <typename K>
  __device__ __forceinline__ uint4 Values(int tile, int span, int offset) const {
    if (tile * 8 + g >= columns) return {0, 0, 0, 0};
    const int place = K::PlaceInSpan(offset, g);
    return LoadShared16(values + ((span * columns + tile * 8) * K::kSpan + place) * 2);
  }
  /// As SpanFacts.
  __device__ __forceinline__ uint4 Facts(int tile, int span) const {
    // Rows that are not there have results that nobody reads.
    const int row = tile * kTileTokens + t < rows ? tile * kTileTokens : 0;
    return LoadShared16(facts + (span * rows + row) * 16);
  }
};

/// A record in registers.
template <typename K>
struct PackedRecord {
  uint4 low, high;
  float2 scales[K::kSpansPerStep], minimums[K::kSpansPerStep];

  __device__ __forceinline__ void Load(uint32_t record, const WorkerX& x) {
    const int lane = x.g * 4 + x.t;
    low = LoadShared16(record + lane * 16);
    if constexpr (K::kWeightBytes == 1024) high = LoadShared16(record + 512 + lane * 16);
    LoadPairs<K>(record + K::kWeightBytes, x.g, scales);
    if constexpr (K::kHasMinimum) {
      LoadPairs<K>(record + K::kWeightBytes + K::kScaleBytes, x.g, minimums);
    }
  }

  /// Fragments of columns 0..3 and 4..7 of each lane.
  __device__ __forceinline__ void Widen(int chunk, uint32_t (&first)[4],
                                        uint32_t (&second)[4]) const {
    if constexpr (K::kWeightBytes == 512) {
      uint32_t upper[4], lower[4];
      Widen4(chunk == 0 ? low.x : low.z, upper);
      Widen4(chunk == 0 ? low.y : low.w, lower);
      first[0] = upper[0], first[1] = lower[0], first[2] = upper[1], first[3] = lower[1];
      second[0] = upper[2], second[1] = lower[2], second[2] = upper[3], second[3] = lower[3];
    } else {
      const uint4& w = chunk == 0 ? low : high;
      Widen8(w.x, first[0], first[2]);
      Widen8(w.y, second[0], second[2]);
      Widen8(w.z, first[1], first[3]);
      Widen8(w.w, second[1], second[3]);
    }
  }
};

/// Fragments of the chunks of a span.
template <typename K>
using SpanFragments = uint32_t[K::kChunksPerSpan][2][4];

template <typename K>
__device__ __forceinline__ void WidenSpan(const PackedRecord<K>& record, int span,
                                          SpanFragments<K>& a) {
#pragma unroll
  for (int c = 0; c < K::kChunksPerSpan; ++c) {
    record.Widen(span * K::kChunksPerSpan + c, a[c][0], a[c][1]);
  }
}

/// What a span of a record gives the sums of a tile.
template <typename K>
__device__ __forceinline__ void MultiplySpan(const PackedRecord<K>& record, int span,
                                             const SpanFragments<K>& a,
                                             const uint4 (&b)[K::kChunksPerSpan],
                                             const uint4& facts, float (&sums)[4]) {
  const float start_high = __uint_as_float(facts.x), start_low = __uint_as_float(facts.y);
  const float factor = __uint_as_float(facts.z);
  float part[4] = {start_high, start_low, start_high, start_low};
#pragma unroll
  for (int c = 0; c < K::kChunksPerSpan; ++c) {
    MultiplyTile<false>(part, a[c][0], b[c].x, b[c].y);
    MultiplyTile<false>(part, a[c][1], b[c].z, b[c].w);
  }
  const float upper = record.scales[span].x * factor, lower = record.scales[span].y * factor;
  sums[0] = fmaf(upper, part[0], sums[0]);
  sums[1] = fmaf(upper, part[1], sums[1]);
  sums[2] = fmaf(lower, part[2], sums[2]);
  sums[3] = fmaf(lower, part[3], sums[3]);
  if constexpr (K::kHasMinimum) {
    const float sum = __uint_as_float(facts.w);
    sums[0] = fmaf(record.minimums[span].x, sum, sums[0]);
    sums[2] = fmaf(record.minimums[span].y, sum, sums[2]);
  }
}

/// One tile: kSteps steps, kWorkers apart, are all loaded before the first is multiplied.
template <typename K, int kSteps>
__device__ __forceinline__ void MultiplySteps(uint32_t record, int step, const WorkerX& x,
                                              float (&sums)[4]) {
  PackedRecord<K> records[kSteps];
  uint4 b[kSteps][K::kSpansPerStep][K::kChunksPerSpan], facts[kSteps][K::kSpansPerStep];
#pragma unroll
  for (int i = 0; i < kSteps; ++i) {
    records[i].Load(record + i * kWorkers * K::kRecordBytes, x);
#pragma unroll
    for (int s = 0; s < K::kSpansPerStep; ++s) {
      const int span = (step + i * kWorkers) * K::kSpansPerStep + s;
#pragma unroll
      for (int c = 0; c < K::kChunksPerSpan; ++c) {
        b[i][s][c] = x.Values<K>(0, span, c * kChunkColumns);
      }
      facts[i][s] = x.Facts(0, span);
    }
  }
#pragma unroll
  for (int i = 0; i < kSteps; ++i) {
#pragma unroll
    for (int s = 0; s < K::kSpansPerStep; ++s) {
      SpanFragments<K> a;
      WidenSpan(records[i], s, a);
      MultiplySpan<K>(records[i], s, a, b[i][s], facts[i][s], sums);
    }
  }
}

/// Several tiles: each span is widened once for all of them.
template <typename K, int kTiles>
__device__ __forceinline__ void MultiplyTiles(uint32_t record, int step, const WorkerX& x,
                                              Sums<kTiles>& sums) {
  PackedRecord<K> loaded;
  loaded.Load(record, x);
#pragma unroll
  for (int s = 0; s < K::kSpansPerStep; ++s) {
    SpanFragments<K> a;
    WidenSpan(loaded, s, a);
    const int span = step * K::kSpansPerStep + s;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      uint4 b[K::kChunksPerSpan];
#pragma unroll
      for (int c = 0; c < K::kChunksPerSpan; ++c) {
        b[c] = x.Values<K>(tile, span, c * kChunkColumns);
      }
      MultiplySpan<K>(loaded, s, a, b, x.Facts(tile, span), sums[tile]);
    }
  }
}

/// The steps of a worker in a stage: `step`, kWorkers behind it, …, up to `end`.
template <typename K, int kTiles>
__device__ __forceinline__ void MultiplyPacked(uint32_t record, int step, int end, const WorkerX& x,
                                               Sums<kTiles>& sums) {
  if constexpr (kTiles == 1) {
    if (step + (K::kStepsEach - 1) * kWorkers < end) {
      MultiplySteps<K, K::kStepsEach>(record, step, x, sums[0]);
      return;
    }
  }
#pragma unroll 1
  for (; step < end; step += kWorkers, record += kWorkers * K::kRecordBytes) {
    MultiplyTiles<K, kTiles>(record, step, x, sums);
  }
}

template <typename K, int kTiles>
__device__ __forceinline__ void MultiplyPlain(uint32_t record, int step, const WorkerX& x,
                                              Sums<kTiles>& sums) {
  float part[kTiles][4] = {};
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const uint32_t piece = ((x.t * 2 + half) ^ x.g) * 16;
    const uint4 upper = LoadShared16(record + x.g * 128 + piece);
    const uint4 lower = LoadShared16(record + (x.g + 8) * 128 + piece);
    const uint32_t first[4] = {upper.x, lower.x, upper.y, lower.y};
    const uint32_t second[4] = {upper.z, lower.z, upper.w, lower.w};
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      const uint4 b = x.Values<K>(tile, step, half * 8);
      MultiplyTile<K::kBf16>(part[tile], first, b.x, b.y);
      MultiplyTile<K::kBf16>(part[tile], second, b.z, b.w);
    }
  }
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
    float factor = 1.0f;
    if constexpr (!K::kBf16) factor = __uint_as_float(x.Facts(tile, step).z);
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[tile][i] = fmaf(factor, part[tile][i], sums[tile][i]);
  }
}

}  // namespace oort::cuda::few_rows
