// SPDX-License-Identifier: MIT
// Who does what in a product of few rows: fetchers keep a ring of stages in shared memory full,
// workers multiply, a finisher adds up and writes. For few_rows.cu alone.
#pragma once

#include "cuda/compact/few_rows_multiply.h"
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
