// SPDX-License-Identifier: MIT
// What a worker warp does with a stage of weights: it loads records into registers and multiplies
// them by x. For gemv.cu alone.
#pragma once

#include "layers/quantized_linear/cuda/gemv_stage.h"

namespace oort::cuda::gemv {

/// Results of rows g and g + 8 of a strip for the columns 2t and 2t + 1 of each tile of x, one
/// behind the other; of packed weights the two columns of a row are one number.
template <typename K, int kTiles>
using Sums = float[kTiles][K::kPacked ? 2 : 4];

/// Pairs of scales (or minimums) of the spans of a record.
template <typename K>
__device__ __forceinline__ void LoadPairs(uint32_t from, float2 (&pairs)[K::kSpansPerStep]) {
  constexpr int kWords = K::kScaleBytes / 32;
  uint32_t bits[4];
  if constexpr (kWords == 1) {
    bits[0] = LoadShared4(from);
  } else if constexpr (kWords == 2) {
    const float2 two = LoadShared8(from);
    bits[0] = __float_as_uint(two.x), bits[1] = __float_as_uint(two.y);
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

/// Where a lane of a worker finds its part of x. kSingle: x is one row. Columns and rows that do
/// not exist repeat others, because nobody reads their results.
template <typename K, bool kSingle>
struct WorkerX {
  uint32_t values;           ///< of column g of the first tile
  uint32_t starts, factors;  ///< of columns 2t and 2t + 1 of the first tile
  int all_rows;
  int g, t;

  __device__ __forceinline__ int rows() const { return kSingle ? 1 : all_rows; }
  __device__ __forceinline__ int columns() const { return rows() * K::kSplits; }
  __device__ __forceinline__ int pairs() const { return rows() * K::kPairsPerRow; }

  __device__ __forceinline__ WorkerX(uint32_t first_value, uint32_t first_start,
                                     uint32_t first_factor, int x_rows, int first_step)
      : all_rows(x_rows), g(threadIdx.x % 32 / 4), t(threadIdx.x % 4) {
    values = Keep(first_value + Column(0) * K::kStepBytes + t * (K::kStepBytes / 4));
    starts = Keep(first_start + Pair(0) * 8);
    factors = Keep(first_factor + Pair(0) * static_cast<int>(sizeof(SpanFactor)));
    Skip(first_step);
  }

  /// Goes on by some steps.
  __device__ __forceinline__ void Skip(int steps) {
    values += steps * columns() * K::kStepBytes;
    starts += steps * K::kSpansPerStep * pairs() * 8;
    factors += steps * K::kSpansPerStep * pairs() * static_cast<int>(sizeof(SpanFactor));
  }

  /// Loads 16 bytes of the lane's part of a step. For packed weights that is all of it (both
  /// chunks), for plain ones a half.
  __device__ __forceinline__ uint4 Values(int tile, int step, int half = 0) const {
    const int column = tile == 0 ? 0 : Column(tile) - Column(0);
    return LoadShared16(values + (step * columns() + column) * K::kStepBytes + half * 16);
  }
  /// Where the four sums of a span begin.
  __device__ __forceinline__ void Start(int tile, int span, int (&start)[4]) const {
    const float2 both =
        LoadShared8(starts + (span * pairs() + (tile == 0 ? 0 : Pair(tile) - Pair(0))) * 8);
    start[0] = start[2] = __float_as_int(both.x);
    start[1] = start[3] = __float_as_int(both.y);
  }
  __device__ __forceinline__ SpanFactor Factor(int tile, int span) const {
    const uint32_t at = factors + (span * pairs() + (tile == 0 ? 0 : Pair(tile) - Pair(0))) * 8;
    if constexpr (K::kHasMinimum) {
      const float2 both = LoadShared8(at);
      return {both.x, both.y};
    }
    return {__uint_as_float(LoadShared4(at)), 0.0f};
  }

 private:
  __device__ __forceinline__ int Column(int tile) const {
    const int column = tile * 8 + g;
    return column < columns() ? column : tile * 8 + g % K::kSplits;
  }
  __device__ __forceinline__ int Pair(int tile) const {
    const int pair = tile * 4 + t;
    return pair < pairs() ? pair : tile * 4 + t % K::kPairsPerRow;
  }
};

/// Where a lane finds its part of a record.
struct RecordPlace {
  uint32_t weights, scales;
};

/// A record in registers.
template <typename K>
struct PackedRecord {
  uint4 low, high;
  float2 scales[K::kSpansPerStep], minimums[K::kSpansPerStep];

  __device__ __forceinline__ void Load(const RecordPlace& place, int offset) {
    low = LoadShared16(place.weights + offset);
    if constexpr (!K::kNibbles) high = LoadShared16(place.weights + offset + 512);
    LoadPairs<K>(place.scales + offset, scales);
    if constexpr (K::kHasMinimum) LoadPairs<K>(place.scales + offset + K::kScaleBytes, minimums);
  }

  /// Bytes of rows g, g + 8, g, g + 8, in the order of the tensor cores. Where x has digits enough,
  /// nibbles stay where they are in their bytes.
  __device__ __forceinline__ void Widen(int chunk, uint32_t (&a)[4]) const {
    if constexpr (K::kNibbles) {
      const uint32_t upper = chunk == 0 ? low.x : low.z, lower = chunk == 0 ? low.y : low.w;
      a[0] = upper & 0x0f0f0f0fu, a[1] = lower & 0x0f0f0f0fu;
      if constexpr (K::kSplits == 2) {
        a[2] = upper >> 4 & 0x0f0f0f0fu, a[3] = lower >> 4 & 0x0f0f0f0fu;
      } else {
        a[2] = upper & 0xf0f0f0f0u, a[3] = lower & 0xf0f0f0f0u;
      }
    } else {
      const uint4& w = chunk == 0 ? low : high;
      a[0] = w.x, a[1] = w.z, a[2] = w.y, a[3] = w.w;
    }
  }
};

/// What a lane of a worker needs of x for a step and a tile.
template <typename K>
struct StepX {
  uint4 values;
  int starts[K::kSpansPerStep][4];
  SpanFactor factors[K::kSpansPerStep];

  template <bool kSingle>
  __device__ __forceinline__ void Load(const WorkerX<K, kSingle>& x, int tile, int step) {
    values = x.Values(tile, step);
#pragma unroll
    for (int s = 0; s < K::kSpansPerStep; ++s) {
      x.Start(tile, step * K::kSpansPerStep + s, starts[s]);
      factors[s] = x.Factor(tile, step * K::kSpansPerStep + s);
    }
  }
};

/// Adds the products of a record to the sums of a tile.
template <typename K>
__device__ __forceinline__ void MultiplyRecord(const PackedRecord<K>& record, const StepX<K>& x,
                                               float (&sums)[2]) {
#pragma unroll
  for (int s = 0; s < K::kSpansPerStep; ++s) {
    int part[4] = {x.starts[s][0], x.starts[s][1], x.starts[s][2], x.starts[s][3]};
#pragma unroll
    for (int i = 0; i < K::kChunksPerSpan; ++i) {
      const int chunk = s * K::kChunksPerSpan + i;
      uint32_t a[4];
      record.Widen(chunk, a);
      MultiplyDigits(part, a, chunk == 0 ? x.values.x : x.values.z,
                     chunk == 0 ? x.values.y : x.values.w);
    }
    const float upper =
        fmaf(__int_as_float(part[1]) - kWhole, 256.0f, __int_as_float(part[0]) - kWhole);
    const float lower =
        fmaf(__int_as_float(part[3]) - kWhole, 256.0f, __int_as_float(part[2]) - kWhole);
    sums[0] = fmaf(record.scales[s].x * x.factors[s].factor, upper, sums[0]);
    sums[1] = fmaf(record.scales[s].y * x.factors[s].factor, lower, sums[1]);
    if constexpr (K::kHasMinimum) {
      sums[0] = fmaf(record.minimums[s].x, x.factors[s].sum, sums[0]);
      sums[1] = fmaf(record.minimums[s].y, x.factors[s].sum, sums[1]);
    }
  }
}

/// All kSteps steps, which lie kWorkers apart, are loaded before the first is multiplied. The part
/// of x is in registers.
template <typename K, int kSteps>
__device__ __forceinline__ void MultiplyHeld(const RecordPlace& place, const StepX<K>* x,
                                             float (&sums)[2]) {
  PackedRecord<K> records[kSteps];
#pragma unroll
  for (int i = 0; i < kSteps; ++i) records[i].Load(place, i * kWorkers * K::kRecordBytes);
#pragma unroll
  for (int i = 0; i < kSteps; ++i) MultiplyRecord(records[i], x[i], sums);
}

/// As MultiplyHeld, with tiles of x that lie in shared memory, all of which have rows.
template <typename K, int kSteps, int kTiles, bool kSingle>
__device__ __forceinline__ void MultiplySteps(const RecordPlace& place,
                                              const WorkerX<K, kSingle>& x, Sums<K, kTiles>& sums) {
  PackedRecord<K> records[kSteps];
#pragma unroll
  for (int i = 0; i < kSteps; ++i) records[i].Load(place, i * kWorkers * K::kRecordBytes);
  StepX<K> steps[kTiles][kSteps];
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
    for (int i = 0; i < kSteps; ++i) steps[tile][i].Load(x, tile, i * kWorkers);
  }
#pragma unroll
  for (int i = 0; i < kSteps; ++i) {
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile)
      MultiplyRecord(records[i], steps[tile][i], sums[tile]);
  }
}

/// Several tiles of one step.
template <typename K, int kTiles, bool kSingle>
__device__ __forceinline__ void MultiplyTiles(const RecordPlace& place,
                                              const WorkerX<K, kSingle>& x, Sums<K, kTiles>& sums) {
  PackedRecord<K> loaded;
  loaded.Load(place, 0);
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
    if (tile * K::kTileTokens >= x.rows()) break;
    StepX<K> step;
    step.Load(x, tile, 0);
    MultiplyRecord(loaded, step, sums[tile]);
  }
}

/// The steps of a worker in a stage that has `steps` from the worker's first on: this one, kWorkers
/// behind it, …
template <typename K, int kTiles, bool kSingle>
__device__ __forceinline__ void MultiplyPacked(RecordPlace place, int steps, WorkerX<K, kSingle> x,
                                               Sums<K, kTiles>& sums) {
  // There are registers for all of it but for the largest scales.
  constexpr bool kLarge = K::kHasMinimum && sizeof(typename K::ScaleType) == 8;
  if constexpr (kTiles == 1 || (K::kSplits == 2 && !kLarge)) {
    if (steps > (K::kStepsEach - 1) * kWorkers) {
      MultiplySteps<K, K::kStepsEach, kTiles>(place, x, sums);
      return;
    }
  }
#pragma unroll 1
  for (; steps > 0; steps -= kWorkers) {
    MultiplyTiles<K, kTiles>(place, x, sums);
    place.weights += kWorkers * K::kRecordBytes;
    place.scales += kWorkers * K::kRecordBytes;
    x.Skip(kWorkers);
  }
}

/// `row`: where row g of the step begins.
template <typename K, int kTiles, bool kSingle>
__device__ __forceinline__ void MultiplyPlain(uint32_t row, const WorkerX<K, kSingle>& x,
                                              Sums<K, kTiles>& sums) {
  float part[kTiles][4] = {};
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const uint32_t piece = row + ((x.t * 2 + half) ^ x.g) * 16;
    const uint4 upper = LoadShared16(piece), lower = LoadShared16(piece + 8 * 128);
    const uint32_t first[4] = {upper.x, lower.x, upper.y, lower.y};
    const uint32_t second[4] = {upper.z, lower.z, upper.w, lower.w};
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      if (tile * K::kTileTokens >= x.rows()) break;
      const uint4 b = x.Values(tile, 0, half);
      MultiplyTile<K::kBf16>(part[tile], first, b.x, b.y);
      MultiplyTile<K::kBf16>(part[tile], second, b.z, b.w);
    }
  }
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
    if (tile * K::kTileTokens >= x.rows()) break;
    float factor = 1.0f;
    if constexpr (!K::kBf16) factor = x.Factor(tile, 0).factor;
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[tile][i] = fmaf(factor, part[tile][i], sums[tile][i]);
  }
}

}  // namespace oort::cuda::gemv
