// SPDX-License-Identifier: MIT
// The roles of a warp-specialized GEMV: fetchers keep a ring of stages in shared memory full,
// workers multiply, a finisher sums up and writes. For gemv.cu alone.
#pragma once

#include "layers/quantized_linear/cuda/gemv_multiply.h"

namespace oort::cuda::gemv {

// ---- The fetcher -------------------------------------------------------------------------------

/// The stages of all strips of this block, one after the other.
template <typename K>
struct Ring {
  uint32_t stages;       ///< kStages of kStageBytes
  uint32_t full, empty;  ///< barriers, eight bytes each
  int count;             ///< of stages

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

/// Arrives at the barrier when all copies of this lane have ended.
__device__ __forceinline__ void ArriveWithCopies(Barrier full) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(full.at) : "memory");
}

__device__ __forceinline__ void FetchPacked(const char* from, int bytes, uint32_t stage,
                                            Barrier full) {
  const int lane = threadIdx.x % 32;
#if __CUDA_ARCH__ >= 900
  if (lane != 0) return;
  full.ArriveAndExpect(bytes);
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

/// Eight lanes copy the 128 bytes of a row in a step, so that each of four warps copies four rows.
/// Pieces are swizzled by the row, so that the lanes that read them later hit different banks.
/// (Bulk copies cannot swizzle, and they are slow where rows are padded by 16 bytes.)
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
__device__ void Fetch(const DeviceWeights& w, const Ring<K>& ring, Barrier staged, int fetcher) {
  Turn turn;
  turn.parity = 1;  // a fresh ring is empty
  int early = K::kEarlyStages;
  for (int strip = blockIdx.x; strip < w.strips; strip += static_cast<int>(gridDim.x)) {
    for (int first = 0; first < w.steps; first += K::kStageSteps) {
      const int steps = min(K::kStageSteps, w.steps - first);
      // More stages under way would delay the load of x.
      if (early-- == 0) staged.Wait(0);
      ring.Empty(turn).Wait(turn.parity);
      if constexpr (K::kPacked) {
        const char* from = static_cast<const char*>(w.data) +
                           (static_cast<int64_t>(strip) * w.steps + first) * K::kRecordBytes;
        FetchPacked(from, steps * K::kRecordBytes, ring.Stage(turn), ring.Full(turn));
      } else {
        FetchPlain(w, strip, first, steps, fetcher, ring.Stage(turn), ring.Full(turn));
      }
      turn.Next(ring.count);
    }
  }
}

// ---- The workers -------------------------------------------------------------------------------

/// The buffers that hand the sums of strips from the workers to the finisher. Named hardware
/// barriers say that a buffer is full, mbarriers in shared memory that it is empty.
struct Handover {
  float* sums;     ///< (kBuffers, kWorkers, rows of x in whole tiles, 16)
  uint32_t empty;  ///< barriers in shared memory
  static constexpr int kFirstBarrier = 2;
  __device__ __forceinline__ void Fill(const Turn& turn) const {
    asm volatile("bar.arrive %0, %1;" ::"r"(kFirstBarrier + turn.place), "n"((kWorkers + 1) * 32)
                 : "memory");
  }
  __device__ __forceinline__ void WaitFilled(const Turn& turn) const {
    asm volatile("bar.sync %0, %1;" ::"r"(kFirstBarrier + turn.place), "n"((kWorkers + 1) * 32)
                 : "memory");
  }
  __device__ __forceinline__ Barrier Empty(const Turn& turn) const {
    return {empty + turn.place * 8};
  }
};

/// Hands the sums of this worker for a strip to the finisher.
template <typename K, int kTiles>
__device__ __forceinline__ void HandOver(const Handover& handover, Turn& buffer,
                                         const Sums<K, kTiles>& sums) {
  const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  handover.Empty(buffer).Wait(buffer.parity);
  float* mine = handover.sums + (buffer.place * kWorkers + warp) * kTiles * K::kTileSums + g;
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
    if constexpr (K::kPacked && K::kSplits == 2) {
      mine[(tile * K::kTileTokens + t) * 16] = sums[tile][0];
      mine[(tile * K::kTileTokens + t) * 16 + 8] = sums[tile][1];
    } else if constexpr (K::kPacked) {
      const float upper = sums[tile][0] + __shfl_xor_sync(~0u, sums[tile][0], 1);
      const float lower = sums[tile][1] + __shfl_xor_sync(~0u, sums[tile][1], 1);
      mine[(tile * K::kTileTokens + t / 2) * 16 + t % 2 * 8] = t % 2 == 0 ? upper : lower;
    } else {
      mine[(tile * K::kTileTokens + t) * 16] = sums[tile][0] + sums[tile][1];
      mine[(tile * K::kTileTokens + t) * 16 + 8] = sums[tile][2] + sums[tile][3];
    }
  }
  handover.Fill(buffer);
  buffer.Next(kBuffers);
}

/// Where a lane of a worker finds what it multiplies in the first stage and the first step.
template <typename K, bool kSingle>
struct WorkPlace {
  WorkerX<K, kSingle> x;
  RecordPlace record;  ///< of plain weights row g of the step

  __device__ __forceinline__ WorkPlace(const Ring<K>& ring, const WorkerX<K, kSingle>& first)
      : x(first) {
    const uint32_t from = ring.stages + threadIdx.x / 32 * K::kRecordBytes;
    record.weights = Keep(from + (K::kPacked ? threadIdx.x % 32 * 16 : x.g * 128));
    record.scales = Keep(from + K::kWeightBytes + x.g * (K::kScaleBytes / 8));
  }
};

template <typename K, int kTiles, bool kSingle>
__device__ __forceinline__ void Work(const DeviceWeights& w, const Ring<K>& ring,
                                     const WorkPlace<K, kSingle>& place, const Handover& handover) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, steps = w.steps, strips = w.strips;
  const WorkerX<K, kSingle>& x = place.x;
  Turn turn, buffer;
  buffer.parity = 1;
  for (int strip = blockIdx.x; strip < strips; strip += static_cast<int>(gridDim.x)) {
    Sums<K, kTiles> sums = {};
    WorkerX<K, kSingle> here = x;
    for (int left = steps - warp; left > -warp; left -= K::kStageSteps) {
      ring.Full(turn).Wait(turn.parity);
      const uint32_t stage = turn.place * K::kStageBytes;
      if constexpr (K::kPacked) {
        const RecordPlace record{place.record.weights + stage, place.record.scales + stage};
        MultiplyPacked<K, kTiles>(record, min(left, K::kStageSteps - warp), here, sums);
      } else {
        if (left > 0) MultiplyPlain<K, kTiles>(place.record.weights + stage, here, sums);
      }
      here.Skip(K::kStageSteps);
      __syncwarp();
      if (lane == 0) ring.Empty(turn).Arrive();
      turn.Next(ring.count);
    }
    HandOver<K, kTiles>(handover, buffer, sums);
  }
}

/// The same for one row of x of few columns: what a worker needs of it stays in registers.
template <typename K>
__device__ __forceinline__ void WorkHeld(const DeviceWeights& w, const Ring<K>& ring,
                                         const WorkPlace<K, true>& place,
                                         const Handover& handover) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, steps = w.steps, strips = w.strips;
  StepX<K> x[kHeldSteps] = {};
#pragma unroll
  for (int i = 0; i < kHeldSteps; ++i) {
    if (warp + i * kWorkers < steps) x[i].Load(place.x, 0, i * kWorkers);
  }
  Turn turn, buffer;
  buffer.parity = 1;
  for (int strip = blockIdx.x; strip < strips; strip += static_cast<int>(gridDim.x)) {
    Sums<K, 1> sums = {};
#pragma unroll
    for (int first = 0; first < kHeldSteps; first += K::kStepsEach) {
      const int left = steps - first * kWorkers;
      if (left <= 0) break;
      ring.Full(turn).Wait(turn.parity);
      const uint32_t stage = turn.place * K::kStageBytes;
      const RecordPlace record{place.record.weights + stage, place.record.scales + stage};
      if (left >= K::kStageSteps) {
        MultiplyHeld<K, K::kStepsEach>(record, x + first, sums[0]);
      } else {
#pragma unroll
        for (int i = 0; i < K::kStepsEach; ++i) {
          constexpr int kApart = kWorkers * K::kRecordBytes;
          const RecordPlace one{record.weights + i * kApart, record.scales + i * kApart};
          if (warp + i * kWorkers < left) MultiplyHeld<K, 1>(one, x + first + i, sums[0]);
        }
      }
      __syncwarp();
      if (lane == 0) ring.Empty(turn).Arrive();
      turn.Next(ring.count);
    }
    HandOver<K, 1>(handover, buffer, sums);
  }
}

}  // namespace oort::cuda::gemv
