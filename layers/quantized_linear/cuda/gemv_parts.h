// SPDX-License-Identifier: MIT
// The parts of a GEMV on tensor cores: formats of weights, barriers, copies and matrix
// instructions. For .cu files.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "cuda/cluster.cuh"
#include "cuda/tiles.h"
#include "layers/quantized_linear/cuda/gemv.h"

namespace oort::cuda::gemv {

// ---- Formats -----------------------------------------------------------------------------------

constexpr int kWorkers = 16;  // warps that multiply; a stage has steps for each
constexpr int kBuffers = 3;   // strips whose sums wait for the finisher
constexpr int kLeastStages = 3;
constexpr int kHeldSteps = 4;  // of a worker, whose part of x can stay in registers

/// kStages: of the ring, where shared memory has the space. kStepsEach: of each worker in a stage.
/// kClusters: blocks stage several rows of x together. kFetchers: warps that fetch. kEarlyStages:
/// those that they fetch before x is there.
/// kSplits: numbers that add up to an element of x, each in a column of the second factor. Plain
/// weights meet two 16-bit numbers, packed ones four digits of 8 bits, or two of them.
struct Bf16Weights {
  static constexpr bool kPacked = false, kBf16 = true, kNibbles = false, kClusters = false;
  static constexpr int kWeightBytes = 2048, kStages = 5, kStepsEach = 1;
  static constexpr int kSplits = 2, kFetchers = 4, kEarlyStages = 4;
};
struct F16Weights : Bf16Weights {
  static constexpr bool kBf16 = false;
};
struct Int8Weights {
  static constexpr bool kPacked = true, kBf16 = false, kNibbles = false, kClusters = false;
  static constexpr int kWeightBytes = 1024, kStages = 9, kStepsEach = 1;
  static constexpr int kSplits = 4, kFetchers = 1, kEarlyStages = 7;
};
struct Int4Weights {
  static constexpr bool kPacked = true, kBf16 = false, kNibbles = true, kClusters = false;
  static constexpr int kWeightBytes = 512, kStages = 6, kStepsEach = 2;
  static constexpr int kSplits = 4, kFetchers = 1, kEarlyStages = 4;
};

/// The same with half of the digits: rows of x take half of the columns and of the memory.
template <typename Weights>
struct FewDigits : Weights {
  static constexpr int kSplits = 2;
  static constexpr bool kClusters = true;
};

/// A format with the type of its scales: pairs for rows g and g + 8.
template <typename Weights, typename Scale, bool kMinimum, bool kByChunk>
struct Kind : Weights {
  using ScaleType = Scale;
  static constexpr bool kHasMinimum = kMinimum, kChunkScales = kByChunk;
  static constexpr int kScaleBytes =
      Weights::kPacked ? 8 * (kByChunk ? kChunksPerStep : 1) * static_cast<int>(sizeof(Scale)) : 0;
  static constexpr int kRecordBytes = Weights::kWeightBytes + kScaleBytes * (kMinimum ? 2 : 1);
  static constexpr int kStageSteps = kWorkers * Weights::kStepsEach;
  static constexpr int kStageBytes = kStageSteps * kRecordBytes;
  static constexpr int kThreads = (kWorkers + Weights::kFetchers + 1) * 32;
  /// Columns whose products are added up before they meet a scale.
  static constexpr int kSpan = Weights::kPacked && kByChunk ? kChunkColumns : kStepColumns;
  static constexpr int kSpansPerStep = kStepColumns / kSpan, kChunksPerSpan = kSpan / kChunkColumns;
  /// Rows of x in the eight columns of one product, and results of a strip there.
  static constexpr int kTileTokens = 8 / Weights::kSplits, kTileSums = kTileTokens * kStripRows;
  /// Bytes of one of the numbers that add up to x, and what all columns have of a step.
  static constexpr int kSplitBytes = Weights::kPacked ? 1 : 2;
  static constexpr int kStepBytes = kStepColumns * kSplitBytes;
  /// Two columns of a tile are in the hands of one lane.
  static constexpr int kPairsPerRow = Weights::kSplits / 2;
};

// ---- Barriers and copies -----------------------------------------------------------------------

/// Keeps a number in its register, because the compiler would compute it again, which costs more.
__device__ __forceinline__ uint32_t Keep(uint32_t value) {
  asm volatile("" : "+r"(value));
  return value;
}

#if __CUDA_ARCH__ >= 900
#define OORT_MBARRIER_WAIT "try_wait"  // sleeps a while where it must wait
constexpr bool kBulkCopies = true;
#else
#define OORT_MBARRIER_WAIT "test_wait"
constexpr bool kBulkCopies = false;
#endif

/// A barrier in shared memory (mbarrier), by its address.
struct Barrier {
  uint32_t at;
  __device__ __forceinline__ void Init(int count) const {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(at), "r"(count) : "memory");
  }
  __device__ __forceinline__ void Arrive() const {
    asm volatile("{ .reg .b64 t; mbarrier.arrive.shared.b64 t, [%0]; }" ::"r"(at) : "memory");
  }
  /// Arrives; the phase ends when so many bytes have come, too.
  __device__ __forceinline__ void ArriveAndExpect([[maybe_unused]] int bytes) const {
#if __CUDA_ARCH__ >= 900
    asm volatile("{ .reg .b64 t; mbarrier.arrive.expect_tx.shared.b64 t, [%0], %1; }" ::"r"(at),
                 "r"(bytes)
                 : "memory");
#endif
  }
  /// Waits until the phase of this parity has ended.
  __device__ __forceinline__ void Wait(int parity) const {
    asm volatile(
        "{ .reg .pred p;\n"
        "wait: mbarrier." OORT_MBARRIER_WAIT
        ".parity.shared.b64 p, [%0], %1;\n"
        "@p bra done;\n"
        "bra wait;\n"
        "done: }" ::"r"(at),
        "r"(parity)
        : "memory");
  }
};

/// Arrives at a barrier in all blocks of a cluster, behind what this warp has stored there.
__device__ __forceinline__ void ArriveEverywhere(const Cluster& cluster, Barrier barrier) {
  __syncwarp();
  if (threadIdx.x % 32 != 0) return;
#if __CUDA_ARCH__ >= 900
  for (uint32_t block = 0; block < cluster.blocks; ++block) {
    asm volatile(
        "{ .reg .b32 there;\n"
        "mapa.shared::cluster.u32 there, %0, %1;\n"
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there]; }" ::"r"(barrier.at),
        "r"(block)
        : "memory");
  }
#else
  barrier.Arrive();
#endif
}
/// Waits for the first phase of a barrier, and for what was stored before it by all who arrived.
__device__ __forceinline__ void WaitForAll(Barrier barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{ .reg .pred p;\n"
      "wait: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], 0;\n"
      "@p bra done;\n"
      "bra wait;\n"
      "done: }" ::"r"(barrier.at)
      : "memory");
#else
  barrier.Wait(0);
#endif
}

/// A position in a ring of `size` places; the parity tells one round from the next.
struct Turn {
  int place = 0, parity = 0;
  __device__ __forceinline__ void Next(int size) {
    if (++place == size) place = 0, parity ^= 1;
  }
};

// ---- Tensor cores ------------------------------------------------------------------------------

/// 16 rows by 32 columns, weights without and digits with a sign.
__device__ __forceinline__ void MultiplyDigits(int (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                               uint32_t b1) {
  int d[4];
  asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
      "{%8,%9}, {%10,%11,%12,%13};"
      : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(c[0]), "r"(c[1]),
        "r"(c[2]), "r"(c[3]));
  c[0] = d[0], c[1] = d[1], c[2] = d[2], c[3] = d[3];
}

/// The bits of the float 1.5 * 2^23. Adding an integer of up to 22 bits to these bits adds it to
/// the float.
constexpr int kWholeBits = 0x4b400000;
constexpr float kWhole = 12582912.0f;

}  // namespace oort::cuda::gemv
