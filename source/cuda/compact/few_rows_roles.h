// SPDX-License-Identifier: MIT
// Who does what in a product of few rows: fetchers keep a ring of stages in shared memory full,
// workers multiply, a finisher adds up and writes. For few_rows.cu alone.
#pragma once

#include "cuda/compact/few_rows_parts.h"
#include "cuda/compact/row_activation.h"

namespace oort::cuda::few_rows {

// ---- The fetcher -------------------------------------------------------------------------------

/// The stages of all strips of this block, one after the other.
template <typename K>
struct Ring {
  uint32_t stages;       ///< kStages of kStageBytes
  uint32_t full, empty;  ///< barriers, eight bytes each

  __device__ __forceinline__ Barrier Full(const Turn& turn) const {
    return {full + turn.place * 8};
  }
  __device__ __forceinline__ Barrier Empty(const Turn& turn) const {
    return {empty + turn.place * 8};
  }
  __device__ __forceinline__ uint32_t Stage(const Turn& turn) const {
    return stages + turn.place * K::kStageBytes;
  }
  /// Arrivals that fill a stage: one for the whole of a bulk copy, or all lanes that fetch.
  static constexpr int kFillers = K::kPacked && kBulkCopies ? 1 : 32 * K::kFetchers;
};

__device__ __forceinline__ void CopyAsync16(uint32_t to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
/// An arrival once all copies of this lane are here.
__device__ __forceinline__ void ArriveWithCopies(Barrier full) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(full.at) : "memory");
}

__device__ __forceinline__ void FetchPacked(const char* from, int bytes, uint32_t stage,
                                            Barrier full) {
  const int lane = threadIdx.x % 32;
#if __CUDA_ARCH__ >= 900
  if (lane != 0) return;
  asm volatile("{ .reg .b64 t; mbarrier.arrive.expect_tx.shared.b64 t, [%0], %1; }" ::"r"(full.at),
               "r"(bytes)
               : "memory");
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(stage),
      "l"(from), "r"(bytes), "r"(full.at)
      : "memory");
#else
  for (int at = lane * 16; at < bytes; at += 512) CopyAsync16(stage + at, from + at);
  ArriveWithCopies(full);
#endif
}

/// Eight lanes copy the 128 bytes that a step has of a row, each of four warps four rows. Pieces of
/// a row are turned by the row, so that the lanes that take them later meet different banks.
__device__ __forceinline__ void FetchPlain(const DeviceWeights& w, int strip, int first, int steps,
                                           int fetcher, uint32_t stage, Barrier full) {
  const int lane = threadIdx.x % 32, row = fetcher * 4 + lane / 8, piece = lane % 8;
  const uint16_t* from = static_cast<const uint16_t*>(w.data) +
                         (static_cast<int64_t>(strip) * kStripRows + row) * w.row_elements +
                         first * kStepColumns + piece * 8;
  const uint32_t to = stage + row * 128 + (piece ^ (row % 8)) * 16;
#pragma unroll 8
  for (int step = 0; step < steps; ++step) {
    CopyAsync16(to + step * 2048, from + step * kStepColumns);
  }
  ArriveWithCopies(full);
}

template <typename K>
__device__ void Fetch(const DeviceWeights& w, const Ring<K>& ring, int fetcher) {
  Turn turn;
  turn.parity = 1;  // a fresh ring is empty
  for (int strip = blockIdx.x; strip < w.strips; strip += static_cast<int>(gridDim.x)) {
    for (int first = 0; first < w.steps; first += K::kStageSteps) {
      const int steps = min(K::kStageSteps, w.steps - first);
      ring.Empty(turn).Wait(turn.parity);
      if constexpr (K::kPacked) {
        const char* from = static_cast<const char*>(w.data) +
                           (static_cast<int64_t>(strip) * w.steps + first) * K::kRecordBytes;
        FetchPacked(from, steps * K::kRecordBytes, ring.Stage(turn), ring.Full(turn));
      } else {
        FetchPlain(w, strip, first, steps, fetcher, ring.Stage(turn), ring.Full(turn));
      }
      turn.Next(K::kStages);
    }
  }
}

// ---- The workers -------------------------------------------------------------------------------

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

/// Sums of strips on their way from the workers to the finisher.
struct Handover {
  float* sums;           ///< (kBuffers, kWorkers, rows of x in whole tiles, 16)
  uint32_t full, empty;  ///< barriers
  __device__ __forceinline__ Barrier Full(const Turn& turn) const {
    return {full + turn.place * 8};
  }
  __device__ __forceinline__ Barrier Empty(const Turn& turn) const {
    return {empty + turn.place * 8};
  }
};

template <typename K, int kTiles>
__device__ void Work(const DeviceWeights& w, const Ring<K>& ring, const WorkerX& x,
                     const Handover& handover) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  Turn turn, buffer;
  buffer.parity = 1;
  for (int strip = blockIdx.x; strip < w.strips; strip += static_cast<int>(gridDim.x)) {
    Sums<kTiles> sums = {};
    for (int first = 0; first < w.steps; first += K::kStageSteps) {
      const int step = first + warp;
      ring.Full(turn).Wait(turn.parity);
      const uint32_t record = ring.Stage(turn) + warp * K::kRecordBytes;
      if constexpr (K::kPacked) {
        MultiplyPacked<K, kTiles>(record, step, min(first + K::kStageSteps, w.steps), x, sums);
      } else {
        if (step < w.steps) MultiplyPlain<K, kTiles>(record, step, x, sums);
      }
      __syncwarp();
      if (lane == 0) ring.Empty(turn).Arrive();
      turn.Next(K::kStages);
    }
    handover.Empty(buffer).Wait(buffer.parity);
    float* mine = handover.sums + (buffer.place * kWorkers + warp) * kTiles * kTileSums;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      mine[(tile * kTileTokens + x.t) * 16 + x.g] = sums[tile][0] + sums[tile][1];
      mine[(tile * kTileTokens + x.t) * 16 + x.g + 8] = sums[tile][2] + sums[tile][3];
    }
    __syncwarp();
    if (lane == 0) handover.Full(buffer).Arrive();
    buffer.Next(kBuffers);
  }
}

// ---- The finisher ------------------------------------------------------------------------------

/// Eight rows of a strip gate the other eight. All lanes take part.
__device__ __forceinline__ void WriteGated(const FewRowsProduct& p, int strip, int lane, int token,
                                           float value) {
  const float up = __shfl_down_sync(~0u, value, 8);
  const int row = strip * 8 + lane;
  if (lane >= 8 || row >= p.part_rows[0]) return;
  p.y[0][static_cast<int64_t>(token) * p.part_rows[0] + row] = Activate(p.activation, value) * up;
}

/// `addend`: that of the first part for the first token.
__device__ __forceinline__ void Write(const FewRowsProduct& p, int row, int token, float addend,
                                      float value) {
  int part = 0;
#pragma unroll
  for (int i = 0; i + 1 < kMostProducts; ++i) {
    const int rows = (p.part_rows[i] + kStripRows - 1) / kStripRows * kStripRows;
    if (part == i && i + 1 < p.parts && row >= rows) {
      row -= rows;
      ++part;
    }
  }
  float* y = part == 0 ? p.y[0] : part == 1 ? p.y[1] : p.y[2];
  const int rows = part == 0 ? p.part_rows[0] : part == 1 ? p.part_rows[1] : p.part_rows[2];
  if (row >= rows) return;
  const int64_t at = static_cast<int64_t>(token) * rows + row;
  if (part == 0 && p.addend != nullptr) value += token == 0 ? addend : p.addend[at];
  y[at] = Activate(p.activation, value);
}

template <int kTiles>
__device__ void FinishStrips(const FewRowsProduct& p, const Handover& handover, const float* norm) {
  const int lane = threadIdx.x % 32, r = lane % 16;
  constexpr int kWarpSums = kTiles * kTileSums;
  Turn buffer;
  for (int strip = blockIdx.x; strip < p.weights.strips; strip += static_cast<int>(gridDim.x)) {
    const int own = strip * kStripRows + r;
    // On its way while the workers are at it; that of the first row of x, often the only one.
    const float addend = p.addend != nullptr && own < p.part_rows[0] ? p.addend[own] : 0.0f;
    handover.Full(buffer).Wait(buffer.parity);
    for (int token = 0; token < p.rows; ++token) {
      const float* from = handover.sums +
                          (buffer.place * kWorkers + lane / 16 * (kWorkers / 2)) * kWarpSums +
                          token * 16 + r;
      float value = 0;
#pragma unroll
      for (int i = 0; i < kWorkers / 2; ++i) value += from[i * kWarpSums];
      value += __shfl_xor_sync(~0u, value, 16);
      value *= norm[token];
      if (p.bias != nullptr) value += p.bias[strip * kStripRows + r];
      if (p.gated) {
        WriteGated(p, strip, lane, token, value);
      } else if (lane < 16) {
        Write(p, own, token, addend, value);
      }
    }
    __syncwarp();
    if (lane == 0) handover.Empty(buffer).Arrive();
    buffer.Next(kBuffers);
  }
}

}  // namespace oort::cuda::few_rows
