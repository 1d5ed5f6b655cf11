// SPDX-License-Identifier: MIT
// What products of few rows are made of: the formats of weights, barriers, and x in shared memory.
// For .cu files.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "cuda/compact/few_rows.h"

namespace oort::cuda::few_rows {

constexpr int kSplits = 2;                   // numbers that add up to an element of x
constexpr int kTileTokens = 8 / kSplits;     // rows of x in the eight columns of one product
constexpr int kTileSums = kTileTokens * 16;  // results of a strip in one tile

// ---- Formats -----------------------------------------------------------------------------------

constexpr int kWorkers = 16;  // warps that multiply; a stage has steps for each
constexpr int kBuffers = 3;   // strips whose sums wait for the finisher

/// kStages: of the ring. kStepsEach: of each worker in a stage. kFetchers: warps that fetch.
struct Bf16Weights {
  static constexpr bool kPacked = false, kBf16 = true;
  static constexpr int kWeightBytes = 2048, kStages = 3, kStepsEach = 1, kFetchers = 4;
};
struct F16Weights : Bf16Weights {
  static constexpr bool kBf16 = false;
};
struct Int8Weights {
  static constexpr bool kPacked = true, kBf16 = false;
  static constexpr int kWeightBytes = 1024, kStages = 5, kStepsEach = 1, kFetchers = 1;
};
struct Int4Weights {
  static constexpr bool kPacked = true, kBf16 = false;
  static constexpr int kWeightBytes = 512, kStages = 5, kStepsEach = 2, kFetchers = 1;
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
  /// Columns whose products are added up before they meet a scale, and whose elements of x share a
  /// power of two as factor (bf16 needs none).
  static constexpr int kSpan = Weights::kPacked && kByChunk ? kChunkColumns : kStepColumns;
  static constexpr int kSpansPerStep = kStepColumns / kSpan, kChunksPerSpan = kSpan / kChunkColumns;
  /// Neighbouring columns of a span that a lane multiplies.
  static constexpr int kLaneColumns = Weights::kPacked ? kChunkColumns / 4 : kStepColumns / 4;

  /// Where column k of a span stands for one of the numbers that add up to x: the halves of every
  /// second one are exchanged, so that the lanes that read both meet different banks.
  __device__ static constexpr int PlaceInSpan(int k, int split) {
    return Weights::kPacked && kSpan == kStepColumns && split % 2 != 0 ? k ^ kChunkColumns : k;
  }
};

// ---- Barriers and copies -----------------------------------------------------------------------

__device__ __forceinline__ uint32_t SharedAddress(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
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
  /// Waits for the end of the phase of this parity.
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

/// Goes round through `size` places; the parity says which round it is.
struct Turn {
  int place = 0, parity = 0;
  __device__ __forceinline__ void Next(int size) {
    if (++place == size) place = 0, parity ^= 1;
  }
};

template <bool kBf16>
__device__ __forceinline__ void MultiplyTile(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                             uint32_t b1) {
  if constexpr (kBf16) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

/// 1024 + q of columns (0,1), (4,5) and 1024 + 16 q of columns (2,3), (6,7).
__device__ __forceinline__ void Widen4(uint32_t q, uint32_t (&pairs)[4]) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const uint32_t part = i == 0 ? q : q >> 8;
    asm("lop3.b32 %0, %1, 0x000f000f, 0x64006400, 0xea;" : "=r"(pairs[2 * i]) : "r"(part));
    asm("lop3.b32 %0, %1, 0x00f000f0, 0x64006400, 0xea;" : "=r"(pairs[2 * i + 1]) : "r"(part));
  }
}

/// 1024 + 128 + q of four bytes that hold q + 128.
__device__ __forceinline__ void Widen8(uint32_t q, uint32_t& first, uint32_t& second) {
  first = __byte_perm(q, 0x64646464u, 0x4140);
  second = __byte_perm(q, 0x64646464u, 0x4342);
}

// ---- x in shared memory ------------------------------------------------------------------------

/// What a span of a row of x needs besides its halves.
struct SpanFacts {
  float start_high, start_low;  ///< where the sums of both columns begin
  float factor;                 ///< of the span's results
  float sum;                    ///< of its elements, for formats with minimums
};

struct StagedX {
  uint16_t* values;  ///< (spans, columns of the second factor, kSpan)
  SpanFacts* facts;  ///< (spans, rows of x)
  int rows;
};

/// A power of two that brings numbers up to `largest` near 4096, well inside of f16.
__device__ __forceinline__ float RangeFactor(float largest) {
  const int exponent = (__float_as_int(largest) >> 23 & 255) - 127;
  if (!(largest > 0) || exponent > 127) return 1.0f;
  return __int_as_float((127 + max(-100, min(100, 12 - exponent))) << 23);
}

template <int kLanes>
__device__ __forceinline__ void AddUp(float& value) {
#pragma unroll
  for (int offset = kLanes / 2; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(~0u, value, offset);
  }
}

/// Four neighbouring elements of x as halves; kSpan / 4 lanes do a span together.
template <typename K>
__device__ __forceinline__ void StageFour(const float (&v)[4], int k, int padded, int row,
                                          bool zero_based, const StagedX& staged) {
  constexpr int kLanes = K::kSpan / 4;
  const int span = k / K::kSpan, columns = staged.rows * kSplits;
  const bool real = k < padded;
  uint16_t* to = staged.values + (span * columns + row * kSplits) * K::kSpan;
  uint16_t a[4], b[4];
  if constexpr (K::kBf16) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const __nv_bfloat16 first = __float2bfloat16(v[i]);
      a[i] = __bfloat16_as_ushort(first);
      b[i] = __bfloat16_as_ushort(__float2bfloat16(v[i] - __bfloat162float(first)));
    }
  } else {
    float largest = fmaxf(fmaxf(fabsf(v[0]), fabsf(v[1])), fmaxf(fabsf(v[2]), fabsf(v[3])));
#pragma unroll
    for (int offset = kLanes / 2; offset > 0; offset /= 2) {
      largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, offset));
    }
    const float range = RangeFactor(largest);
    float highs = 0, lows = 0, sum = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      // The upper four bits of a byte count sixteenfold.
      constexpr bool kFour = K::kWeightBytes == 512;
      const float weight = kFour && i >= 2 ? 1.0f / 16 : 1.0f;
      const float scaled = v[i] * range * weight;
      const __half first = __float2half(scaled);
      const __half second = __float2half(scaled - __half2float(first));
      a[i] = __half_as_ushort(first);
      b[i] = __half_as_ushort(second);
      if constexpr (K::kPacked) {
        const float base = kFour ? 1024.0f + (zero_based ? 0.0f : 8.0f / weight) : 1152.0f;
        highs = fmaf(base, __half2float(first), highs);
        lows = fmaf(base, __half2float(second), lows);
        sum += v[i];
      }
    }
    if constexpr (K::kPacked) {
      AddUp<kLanes>(highs);
      AddUp<kLanes>(lows);
      if constexpr (K::kHasMinimum) AddUp<kLanes>(sum);
    }
    if (real && k % K::kSpan == 0) {
      staged.facts[span * staged.rows + row] = {-highs, -lows, 1.0f / range, sum};
    }
  }
  if (!real) return;
  *reinterpret_cast<uint2*>(to + K::PlaceInSpan(k % K::kSpan, 0)) = {
      a[0] | static_cast<uint32_t>(a[1]) << 16, a[2] | static_cast<uint32_t>(a[3]) << 16};
  *reinterpret_cast<uint2*>(to + K::kSpan + K::PlaceInSpan(k % K::kSpan, 1)) = {
      b[0] | static_cast<uint32_t>(b[1]) << 16, b[2] | static_cast<uint32_t>(b[3]) << 16};
}

/// Elements of a row that the workers have on their way at a time: kBatch times four for each.
constexpr int kBatch = 3;
constexpr int kBatchColumns = kBatch * kWorkers * 32 * 4;

/// Four neighbours for each lane, zeros behind the end.
__device__ __forceinline__ void LoadBatch(const float* from, int first, int columns,
                                          float4 (&v)[kBatch]) {
  const bool aligned = columns % 4 == 0;
#pragma unroll
  for (int i = 0; i < kBatch; ++i) {
    const int k = first + (i * kWorkers * 32 + static_cast<int>(threadIdx.x)) * 4;
    if (aligned && k < columns) {
      v[i] = *reinterpret_cast<const float4*>(from + k);
    } else {
      v[i].x = k < columns ? from[k] : 0.0f;
      v[i].y = k + 1 < columns ? from[k + 1] : 0.0f;
      v[i].z = k + 2 < columns ? from[k + 2] : 0.0f;
      v[i].w = k + 3 < columns ? from[k + 3] : 0.0f;
    }
  }
}

/// Writes all rows of x, times the gain of a norm. The norm's factor is one for all elements of a
/// row: it comes at the end, and here only each warp's sum of squares is kept. `gain` has the first
/// batch of the gain.
template <typename K>
__device__ void Stage(const FewRowsProduct& p, const StagedX& staged, float* squares,
                      float4 (&gain)[kBatch]) {
  const int padded = p.weights.steps * kStepColumns, lane = threadIdx.x % 32;
  for (int row = 0; row < p.rows; ++row) {
    const float* x = p.x + static_cast<int64_t>(row) * p.columns;
    float square = 0;
    for (int first = 0; first < padded; first += kBatchColumns) {
      float4 v[kBatch];
      LoadBatch(x, first, p.columns, v);
      if (p.gain != nullptr && padded > kBatchColumns) LoadBatch(p.gain, first, p.columns, gain);
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        // Whole warps go on together, also where the last has less to do: its lanes speak with each
        // other.
        const int base = first + (i * kWorkers * 32 + static_cast<int>(threadIdx.x) - lane) * 4;
        if (base >= padded) break;
        float four[4] = {v[i].x, v[i].y, v[i].z, v[i].w};
        if (p.gain != nullptr) {
          square = fmaf(four[0], four[0], square);
          square = fmaf(four[1], four[1], square);
          square = fmaf(four[2], four[2], square);
          square = fmaf(four[3], four[3], square);
          four[0] *= gain[i].x, four[1] *= gain[i].y, four[2] *= gain[i].z, four[3] *= gain[i].w;
        }
        StageFour<K>(four, base + lane * 4, padded, row, p.weights.zero_based, staged);
      }
    }
    if (p.gain != nullptr) {
      AddUp<32>(square);
      if (lane == 0) squares[row * kWorkers + threadIdx.x / 32] = square;
    }
  }
}

}  // namespace oort::cuda::few_rows
