// SPDX-License-Identifier: MIT
// One block a multiprocessor walks over strips of 16 rows. Fetching warps keep a ring of stages in
// shared memory full, by asynchronous copies that begin before the kernel waits for the one that
// makes x. Sixteen warps multiply, each a step or two of every stage, on tensor cores. One more,
// the finisher, adds what they have of a strip and writes the results. They meet only at barriers
// in shared memory, so that nobody waits without need.
//
// x lies in shared memory as the sum of two 16-bit numbers, which stand in two columns of the
// second factor: so products keep the precision of f32 activations at no cost, since the tensor
// cores have eight columns, and the weights pass by once.
//
// Weights of 8 and 4 bits become f16 by or-ing them into the mantissa of 1024. What that adds to a
// sum of 32 products depends on x alone: its negative is where the sum begins.
#include "cuda/compact/few_rows.h"

#include <algorithm>

#include "cuda/compact/few_rows_parts.h"
#include "cuda/compact/row_activation.h"
#include "cuda/kernel_tools.h"
#include "cuda/launch.h"
#include "cuda/stream.h"

namespace oort::cuda {
namespace {

using namespace few_rows;

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

/// Results of rows g and g + 8 of a strip, for row t of each tile of x.
template <int kTiles>
using Sums = float[kTiles][2];

__device__ __forceinline__ uint4 LoadShared16(uint32_t at) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(at));
  return v;
}

/// Pairs of scales (or minimums) of both chunks of a record.
template <typename K>
__device__ __forceinline__ void LoadPairs(uint32_t at, int g, float2 (&pairs)[kChunksPerStep]) {
  if constexpr (sizeof(typename K::ScaleType) == 4) {
    uint32_t bits[2];
    if constexpr (K::kChunkScales) {
      asm volatile("ld.shared.v2.u32 {%0,%1}, [%2];"
                   : "=r"(bits[0]), "=r"(bits[1])
                   : "r"(at + g * 8));
    } else {
      asm volatile("ld.shared.u32 %0, [%1];" : "=r"(bits[0]) : "r"(at + g * 4));
      bits[1] = bits[0];
    }
    pairs[0] = __half22float2(*reinterpret_cast<__half2*>(&bits[0]));
    pairs[1] = __half22float2(*reinterpret_cast<__half2*>(&bits[1]));
  } else {
    uint4 bits;
    if constexpr (K::kChunkScales) {
      bits = LoadShared16(at + g * 16);
    } else {
      asm volatile("ld.shared.v2.u32 {%0,%1}, [%2];"
                   : "=r"(bits.x), "=r"(bits.y)
                   : "r"(at + g * 8));
      bits.z = bits.x, bits.w = bits.y;
    }
    pairs[0] = {__uint_as_float(bits.x), __uint_as_float(bits.y)};
    pairs[1] = {__uint_as_float(bits.z), __uint_as_float(bits.w)};
  }
}

/// Where a lane finds its part of x.
struct WorkerX {
  uint32_t values, facts;  ///< addresses of column g and row t of the first tile's first span
  int columns, rows;       ///< of the second factor, of x
  int g, t;

  template <typename K>
  __device__ __forceinline__ uint4 Values(int tile, int span, int offset) const {
    if (tile * 8 + g >= columns) return {0, 0, 0, 0};
    return LoadShared16(values + ((span * columns + tile * 8) * K::kSpan + offset) * 2);
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
  float2 scales[kChunksPerStep], minimums[kChunksPerStep];

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

/// What a chunk of a record gives the sums of a tile.
template <typename K>
__device__ __forceinline__ void MultiplyChunk(const PackedRecord<K>& record, int c,
                                              const uint32_t (&first)[4],
                                              const uint32_t (&second)[4], const uint4& b,
                                              const uint4& facts, float (&sums)[2]) {
  const float start_high = __uint_as_float(facts.x), start_low = __uint_as_float(facts.y);
  const float factor = __uint_as_float(facts.z);
  float part[4] = {start_high, start_low, start_high, start_low};
  MultiplyTile<false>(part, first, b.x, b.y);
  MultiplyTile<false>(part, second, b.z, b.w);
  sums[0] = fmaf(record.scales[c].x * factor, part[0] + part[1], sums[0]);
  sums[1] = fmaf(record.scales[c].y * factor, part[2] + part[3], sums[1]);
  if constexpr (K::kHasMinimum) {
    const float sum = __uint_as_float(facts.w);
    sums[0] = fmaf(record.minimums[c].x, sum, sums[0]);
    sums[1] = fmaf(record.minimums[c].y, sum, sums[1]);
  }
}

/// One tile: neighbouring steps are all loaded before the first is multiplied.
template <typename K, int kSteps>
__device__ __forceinline__ void MultiplySteps(uint32_t record, int step, const WorkerX& x,
                                              float (&sums)[2]) {
  PackedRecord<K> records[kSteps];
  uint4 b[kSteps][kChunksPerStep], facts[kSteps][kChunksPerStep];
#pragma unroll
  for (int i = 0; i < kSteps; ++i) {
    records[i].Load(record + i * K::kRecordBytes, x);
#pragma unroll
    for (int c = 0; c < kChunksPerStep; ++c) {
      const int span = (step + i) * kChunksPerStep + c;
      b[i][c] = x.Values<K>(0, span, 0);
      facts[i][c] = x.Facts(0, span);
    }
  }
#pragma unroll
  for (int i = 0; i < kSteps; ++i) {
#pragma unroll
    for (int c = 0; c < kChunksPerStep; ++c) {
      uint32_t first[4], second[4];
      records[i].Widen(c, first, second);
      MultiplyChunk(records[i], c, first, second, b[i][c], facts[i][c], sums);
    }
  }
}

/// Several tiles: each chunk is widened once for all of them.
template <typename K, int kTiles>
__device__ __forceinline__ void MultiplyTiles(uint32_t record, int step, const WorkerX& x,
                                              Sums<kTiles>& sums) {
  PackedRecord<K> loaded;
  loaded.Load(record, x);
#pragma unroll
  for (int c = 0; c < kChunksPerStep; ++c) {
    uint32_t first[4], second[4];
    loaded.Widen(c, first, second);
    const int span = step * kChunksPerStep + c;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      MultiplyChunk(loaded, c, first, second, x.Values<K>(tile, span, 0), x.Facts(tile, span),
                    sums[tile]);
    }
  }
}

/// The steps of a worker in a stage, of which `count` are there.
template <typename K, int kTiles>
__device__ __forceinline__ void MultiplyPacked(uint32_t record, int step, int count,
                                               const WorkerX& x, Sums<kTiles>& sums) {
  if constexpr (kTiles == 1) {
    if (count == K::kStepsEach) {
      MultiplySteps<K, K::kStepsEach>(record, step, x, sums[0]);
      return;
    }
  }
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
    MultiplyTiles<K, kTiles>(record + i * K::kRecordBytes, step + i, x, sums);
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
    sums[tile][0] = fmaf(factor, part[tile][0] + part[tile][1], sums[tile][0]);
    sums[tile][1] = fmaf(factor, part[tile][2] + part[tile][3], sums[tile][1]);
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
      const int step = first + warp * K::kStepsEach;
      ring.Full(turn).Wait(turn.parity);
      if (step < w.steps) {
        const uint32_t record = ring.Stage(turn) + warp * K::kStepsEach * K::kRecordBytes;
        if constexpr (K::kPacked) {
          MultiplyPacked<K, kTiles>(record, step, min(K::kStepsEach, w.steps - step), x, sums);
        } else {
          MultiplyPlain<K, kTiles>(record, step, x, sums);
        }
      }
      __syncwarp();
      if (lane == 0) ring.Empty(turn).Arrive();
      turn.Next(K::kStages);
    }
    handover.Empty(buffer).Wait(buffer.parity);
    float* mine = handover.sums + (buffer.place * kWorkers + warp) * kTiles * kTileSums;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      mine[(tile * kTileTokens + x.t) * 16 + x.g] = sums[tile][0];
      mine[(tile * kTileTokens + x.t) * 16 + x.g + 8] = sums[tile][1];
    }
    __syncwarp();
    if (lane == 0) handover.Full(buffer).Arrive();
    buffer.Next(kBuffers);
  }
}

// ---- The finisher
// -----------------------------------------------------------------------------------

/// Eight rows of a strip gate the other eight. All lanes take part.
__device__ __forceinline__ void WriteGated(const FewRowsProduct& p, int strip, int lane, int token,
                                           float value) {
  const float up = __shfl_down_sync(~0u, value, 8);
  const int row = strip * 8 + lane;
  if (lane >= 8 || row >= p.part_rows[0]) return;
  p.y[0][static_cast<int64_t>(token) * p.part_rows[0] + row] = Activate(p.activation, value) * up;
}

__device__ __forceinline__ void Write(const FewRowsProduct& p, int row, int token, float value) {
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
  if (part == 0 && p.addend != nullptr) value += p.addend[at];
  y[at] = Activate(p.activation, value);
}

template <int kTiles>
__device__ void FinishStrips(const FewRowsProduct& p, const Handover& handover, const float* norm) {
  const int lane = threadIdx.x % 32, r = lane % 16;
  constexpr int kWarpSums = kTiles * kTileSums;
  Turn buffer;
  for (int strip = blockIdx.x; strip < p.weights.strips; strip += static_cast<int>(gridDim.x)) {
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
        Write(p, strip * kStripRows + r, token, value);
      }
    }
    __syncwarp();
    if (lane == 0) handover.Empty(buffer).Arrive();
    buffer.Next(kBuffers);
  }
}

// ---- The kernel --------------------------------------------------------------------------------

/// Where things lie in dynamic shared memory.
template <typename K>
struct SharedPlan {
  int rows, tiles, steps;
  __host__ __device__ int sums() const { return K::kStages * K::kStageBytes; }
  __host__ __device__ int facts() const {
    return sums() + kBuffers * kWorkers * tiles * kTileSums * 4;
  }
  __host__ __device__ int values() const {
    const int spans = steps * (kStepColumns / K::kSpan);
    return facts() + (K::kBf16 ? 0 : spans * rows * static_cast<int>(sizeof(SpanFacts)));
  }
  __host__ __device__ int total() const {
    return values() + steps * kStepColumns * rows * kSplits * 2;
  }
};

constexpr __host__ __device__ int TilesFor(int rows) {
  return rows <= kTileTokens ? 1 : rows <= 2 * kTileTokens ? 2 : 4;
}

template <typename K, int kTiles>
__global__ void __launch_bounds__(K::kThreads, 1)
    FewRowsKernel(const __grid_constant__ FewRowsProduct p) {
  extern __shared__ __align__(128) unsigned char few_rows_shared[];
  __shared__ float squares[kFewRows * kWorkers];
  __shared__ float norm[kFewRows];
  __shared__ __align__(8) uint64_t barriers[2 * (K::kStages + kBuffers)];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const SharedPlan<K> plan{p.rows, kTiles, p.weights.steps};
  const uint32_t base = SharedAddress(few_rows_shared), first_barrier = SharedAddress(barriers);
  const Ring<K> ring{base, first_barrier, first_barrier + K::kStages * 8};
  const uint32_t behind = first_barrier + 2 * K::kStages * 8;
  const Handover handover{reinterpret_cast<float*>(few_rows_shared + plan.sums()), behind,
                          behind + kBuffers * 8};
  LaunchDependents();
  if (threadIdx.x == 0) {
    Turn turn;
    for (int i = 0; i < K::kStages; ++i, turn.Next(K::kStages)) {
      ring.Full(turn).Init(Ring<K>::kFillers);
      ring.Empty(turn).Init(kWorkers);
    }
    for (int i = 0; i < kBuffers; ++i) {
      handover.Full({i, 0}).Init(kWorkers);
      handover.Empty({i, 0}).Init(1);
    }
#if __CUDA_ARCH__ >= 900
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
  }
  __syncthreads();
  if (warp > kWorkers) {
    // Weights do not depend on the kernel before.
    Fetch<K>(p.weights, ring, warp - kWorkers - 1);
    return;
  }
  float4 gain[kBatch] = {};
  if (p.gain != nullptr && warp < kWorkers) LoadBatch(p.gain, 0, p.columns, gain);
  WaitForPredecessor();
  const StagedX staged{reinterpret_cast<uint16_t*>(few_rows_shared + plan.values()),
                       reinterpret_cast<SpanFacts*>(few_rows_shared + plan.facts()), p.rows};
  if (warp < kWorkers) Stage<K>(p, staged, squares, gain);
  // Everybody but the fetchers.
  asm volatile("bar.sync 1, %0;" ::"n"((kWorkers + 1) * 32) : "memory");
  if (warp == kWorkers) {
    if (lane < p.rows) {
      float sum = 0;
      for (int i = 0; i < kWorkers; ++i) sum += squares[lane * kWorkers + i];
      norm[lane] =
          p.gain != nullptr ? rsqrtf(sum / static_cast<float>(p.columns) + p.epsilon) : 1.0f;
    }
    __syncwarp();
    FinishStrips<kTiles>(p, handover, norm);
    return;
  }
  WorkerX x;
  x.g = lane / 4, x.t = lane % 4, x.rows = p.rows, x.columns = p.rows * kSplits;
  x.values = base + plan.values() + (x.g * K::kSpan + x.t * (K::kSpan / 4)) * 2;
  x.facts = base + plan.facts() + (x.t < p.rows ? x.t : 0) * static_cast<int>(sizeof(SpanFacts));
  Work<K, kTiles>(p.weights, ring, x, handover);
}

// ---- Launches ----------------------------------------------------------------------------------

template <typename K>
int64_t SharedBytes(const FewRowsProduct& p) {
  return SharedPlan<K>{p.rows, TilesFor(p.rows), p.weights.steps}.total();
}

template <typename K, int kTiles>
void LaunchTiles(const Stream& stream, const FewRowsProduct& product, bool overlap) {
  const auto kernel = FewRowsKernel<K, kTiles>;
  const int blocks = std::min(product.weights.strips, MultiprocessorCount(stream.device()));
  PreferShared(kernel);
  Launch(stream,
         {dim3(static_cast<unsigned>(blocks)), dim3(K::kThreads),
          static_cast<size_t>(SharedBytes<K>(product)), overlap},
         kernel, product);
}

template <typename K>
void LaunchKind(const Stream& stream, const FewRowsProduct& product, bool overlap) {
  switch (TilesFor(product.rows)) {
    case 1: LaunchTiles<K, 1>(stream, product, overlap); break;
    case 2: LaunchTiles<K, 2>(stream, product, overlap); break;
    default: LaunchTiles<K, 4>(stream, product, overlap);
  }
}

/// Calls visit with the Kind of these weights.
template <typename Visit>
auto WithKind(const DeviceWeights& w, const Visit& visit) {
  const auto scaled = [&]<typename Weights, typename Scale>(Weights, Scale) {
    if (w.has_minimum) {
      return w.chunk_scales ? visit(Kind<Weights, Scale, true, true>())
                            : visit(Kind<Weights, Scale, true, false>());
    }
    return w.chunk_scales ? visit(Kind<Weights, Scale, false, true>())
                          : visit(Kind<Weights, Scale, false, false>());
  };
  const auto packed = [&]<typename Weights>(Weights weights) {
    return w.f32_scales ? scaled(weights, float2()) : scaled(weights, __half2());
  };
  switch (w.format) {
    case DeviceFormat::kBf16: return visit(Kind<Bf16Weights, __half2, false, true>());
    case DeviceFormat::kF16: return visit(Kind<F16Weights, __half2, false, true>());
    case DeviceFormat::kInt8: return packed(Int8Weights());
    case DeviceFormat::kInt4: break;
  }
  return packed(Int4Weights());
}

}  // namespace

int64_t FewRowsShared(const FewRowsProduct& product) {
  return WithKind(product.weights, [&]<typename K>(K) { return SharedBytes<K>(product); });
}

int64_t MostSharedBytes(int device) {
  int bytes = 0;
  Check(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
        "the shared memory of a block");
  return bytes;
}

void RunFewRows(const Stream& stream, const FewRowsProduct& product, bool overlap) {
  WithKind(product.weights, [&]<typename K>(K) { LaunchKind<K>(stream, product, overlap); });
}

}  // namespace oort::cuda
