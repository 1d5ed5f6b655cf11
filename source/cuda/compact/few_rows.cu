// SPDX-License-Identifier: MIT
// One block a multiprocessor walks over strips of 16 rows. Its warps share the columns of a strip;
// each has a ring of steps of weights in shared memory, filled by asynchronous copies, while tensor
// cores multiply those that have come. The first copies are on their way before the kernel waits
// for the one that makes x.
//
// x lies in shared memory as the sum of two 16-bit numbers, which stand in two columns of the
// second factor: so products keep the precision of f32 activations at no cost, since the tensor
// cores have eight columns, and the weights pass by once.
//
// Weights of 8 and 4 bits become f16 by or-ing them into the mantissa of 1024. What that adds to a
// sum of 32 products depends on x alone: its negative is where the sum begins.
#include "cuda/compact/few_rows.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>

#include "cuda/kernel_tools.h"
#include "cuda/launch.h"
#include "cuda/stream.h"

namespace oort::cuda {
namespace {

constexpr int kSplits = 2;                   // numbers that add up to an element of x
constexpr int kTileTokens = 8 / kSplits;     // rows of x in the eight columns of one product
constexpr int kTileSums = kTileTokens * 16;  // results of a strip in one tile

// ---- Formats -----------------------------------------------------------------------------------

/// kStepBytes: of 16 rows and 64 columns. kStages: steps of each warp's ring.
struct Bf16Weights {
  static constexpr bool kPacked = false, kBf16 = true;
  static constexpr int kStepBytes = 2048, kWarps = 8, kStages = 4;
};
struct F16Weights : Bf16Weights {
  static constexpr bool kBf16 = false;
};
struct Int8Weights {
  static constexpr bool kPacked = true, kBf16 = false;
  static constexpr int kStepBytes = 1024, kWarps = 16, kStages = 4;
};
struct Int4Weights {
  static constexpr bool kPacked = true, kBf16 = false;
  static constexpr int kStepBytes = 512, kWarps = 16, kStages = 7;
};

/// A format with the type of its scales: pairs for rows g and g + 8.
template <typename Weights, typename Scale, bool kMinimum>
struct Kind : Weights {
  using ScaleType = Scale;
  static constexpr bool kHasMinimum = kMinimum;
  static constexpr int kThreads = Weights::kWarps * 32;
  static constexpr int kScaleBytes = Weights::kPacked ? 8 * kChunksPerStep * sizeof(Scale) : 0;
  static constexpr int kStageBytes = Weights::kStepBytes + kScaleBytes * (kMinimum ? 2 : 1);
  /// Columns whose elements of x share a power of two as factor (bf16 needs none).
  static constexpr int kSpan = Weights::kPacked ? kChunkColumns : kStepColumns;
};

__device__ __forceinline__ uint32_t BitsOf(__half2 h) { return *reinterpret_cast<uint32_t*>(&h); }

__device__ __forceinline__ void CopyAsync(uint32_t to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
__device__ __forceinline__ void CommitCopies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kLeft>
__device__ __forceinline__ void WaitForCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}

template <bool kBf16>
__device__ __forceinline__ void MultiplyTile(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                             uint32_t b1) {
  if constexpr (kBf16) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
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

__device__ __forceinline__ float2 WidenPair(__half2 pair) { return __half22float2(pair); }
__device__ __forceinline__ float2 WidenPair(float2 pair) { return pair; }

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

template <typename K, int kLanes>
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
  uint16_t* high = staged.values + (span * columns + row * kSplits) * K::kSpan + k % K::kSpan;
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
      constexpr bool kFour = K::kStepBytes == 512;
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
      AddUp<K, kLanes>(highs);
      AddUp<K, kLanes>(lows);
      if constexpr (K::kHasMinimum) AddUp<K, kLanes>(sum);
    }
    if (real && k % K::kSpan == 0) {
      staged.facts[span * staged.rows + row] = {-highs, -lows, 1.0f / range, sum};
    }
  }
  if (!real) return;
  *reinterpret_cast<uint2*>(high) = {a[0] | static_cast<uint32_t>(a[1]) << 16,
                                     a[2] | static_cast<uint32_t>(a[3]) << 16};
  *reinterpret_cast<uint2*>(high + K::kSpan) = {b[0] | static_cast<uint32_t>(b[1]) << 16,
                                                b[2] | static_cast<uint32_t>(b[3]) << 16};
}

/// Writes all rows of x, times the gain of a norm. The norm's factor is one for all elements of a
/// row: it comes at the end, and here only each warp's sum of squares is kept.
template <typename K>
__device__ void Stage(const FewRowsProduct& p, const StagedX& staged, float* squares) {
  const int padded = p.weights.steps * kStepColumns;
  const bool whole = p.columns % 4 == 0;
  for (int row = 0; row < p.rows; ++row) {
    const float* x = p.x + static_cast<int64_t>(row) * p.columns;
    float square = 0;
    // Whole warps go round together, also where the last has less to do: its lanes speak with each
    // other.
    const int lane = threadIdx.x % 32;
#pragma unroll 4
    for (int base = (threadIdx.x - lane) * 4; base < padded; base += K::kThreads * 4) {
      const int k = base + lane * 4;
      float v[4] = {0, 0, 0, 0};
      if (whole && k < p.columns) {
        *reinterpret_cast<float4*>(v) = *reinterpret_cast<const float4*>(x + k);
      } else {
        for (int i = 0; i < 4; ++i) v[i] = k + i < p.columns ? x[k + i] : 0.0f;
      }
      if (p.gain != nullptr) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          square = fmaf(v[i], v[i], square);
          v[i] *= k + i < p.columns ? p.gain[k + i] : 0.0f;
        }
      }
      StageFour<K>(v, k, padded, row, p.weights.zero_based, staged);
    }
    if (p.gain != nullptr) {
      AddUp<K, 32>(square);
      if (threadIdx.x % 32 == 0) squares[row * K::kWarps + threadIdx.x / 32] = square;
    }
  }
}

// ---- The weights' ring -------------------------------------------------------------------------

/// The steps of one warp: step `warp`, warp + kWarps, … of strips blockIdx.x, + gridDim.x, …
template <typename K>
class Ring {
 public:
  __device__ Ring(const DeviceWeights& w, unsigned char* shared, int lane, int warp)
      : w_(w), lane_(lane), warp_(warp), strip_(blockIdx.x), step_(warp) {
    stage_ = shared + warp * K::kStages * K::kStageBytes;
  }

  /// Begins to copy the next step, if there is one, into the oldest place.
  __device__ __forceinline__ void Fetch() {
    if (strip_ < w_.strips && warp_ < w_.steps) {
      const uint32_t to =
          static_cast<uint32_t>(__cvta_generic_to_shared(stage_ + fill_ * K::kStageBytes));
      CopyWeights(to + lane_ * 16);
      if constexpr (K::kPacked) {
        CopyScales(to + K::kStepBytes, w_.scales);
        if constexpr (K::kHasMinimum) CopyScales(to + K::kStepBytes + K::kScaleBytes, w_.minimums);
      }
      step_ += K::kWarps;
      if (step_ >= w_.steps) {
        step_ = warp_;
        strip_ += static_cast<int>(gridDim.x);
      }
    }
    fill_ = fill_ + 1 == K::kStages ? 0 : fill_ + 1;
    CommitCopies();
  }

  /// The oldest step, once it is here.
  __device__ __forceinline__ const unsigned char* Take() {
    WaitForCopies<K::kStages - 2>();
    __syncwarp();
    const unsigned char* taken = stage_ + take_ * K::kStageBytes;
    take_ = take_ + 1 == K::kStages ? 0 : take_ + 1;
    return taken;
  }

 private:
  __device__ __forceinline__ void CopyWeights(uint32_t to) const {
    if constexpr (K::kPacked) {
      const char* from = static_cast<const char*>(w_.data) +
                         static_cast<int64_t>(strip_ * w_.steps + step_) * K::kStepBytes +
                         lane_ * 16;
#pragma unroll
      for (int i = 0; i < K::kStepBytes; i += 512) CopyAsync(to + i, from + i);
    } else {
      // Eight lanes copy the 128 bytes of a row; lane (g, t) later takes 16 columns of rows g and
      // g + 8, so the pieces of a row are turned by the row against conflicts of banks.
      const int row = lane_ / 8, piece = lane_ % 8;
      const uint16_t* from = static_cast<const uint16_t*>(w_.data) +
                             (static_cast<int64_t>(strip_) * kStripRows + row) * w_.row_elements +
                             step_ * kStepColumns + piece * 8;
      const uint32_t base = to - lane_ * 16;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int r = i * 4 + row;
        CopyAsync(base + r * 128 + (piece ^ (r % 8)) * 16, from + i * 4 * w_.row_elements);
      }
    }
  }

  __device__ __forceinline__ void CopyScales(uint32_t to, const void* scales) const {
    constexpr int kOne = 8 * sizeof(typename K::ScaleType);  // bytes of one group's pairs
    if (w_.group_shift < 0) {
      if (lane_ * 16 < K::kScaleBytes) {
        CopyAsync(to + lane_ * 16,
                  static_cast<const char*>(scales) +
                      static_cast<int64_t>(strip_ * w_.steps + step_) * K::kScaleBytes + lane_ * 16);
      }
    } else if (lane_ * 16 < kOne) {
      const int groups = static_cast<int>(GroupsOf(w_.steps, w_.group_shift));
      const int64_t at = strip_ * groups + (step_ >> w_.group_shift);
      CopyAsync(to + lane_ * 16, static_cast<const char*>(scales) + at * kOne + lane_ * 16);
    }
  }

  const DeviceWeights& w_;
  unsigned char* stage_;
  int lane_, warp_, strip_, step_;
  int fill_ = 0, take_ = 0;
};

// ---- The product -------------------------------------------------------------------------------

/// Results of rows g and g + 8 of a strip, for row t of each tile of x.
template <int kTiles>
using Sums = float[kTiles][2];

/// The scales of both chunks of a step, or of the one group that they belong to.
template <typename K>
__device__ __forceinline__ float2 ScaleOf(const unsigned char* scales, int g, int chunk,
                                          bool by_chunk) {
  using Scale = typename K::ScaleType;
  const int at = by_chunk ? g * kChunksPerStep + chunk : g;
  return WidenPair(reinterpret_cast<const Scale*>(scales)[at]);
}

template <typename K, int kTiles>
__device__ __forceinline__ void MultiplyPacked(const unsigned char* step, int index, bool by_chunk,
                                               const StagedX& x, int lane, Sums<kTiles>& sums) {
  const int g = lane / 4, t = lane % 4, columns = x.rows * kSplits;
  const uint4* words = reinterpret_cast<const uint4*>(step) + lane;
  const uint4 low = words[0];
  const uint4 high = K::kStepBytes == 1024 ? words[32] : low;
#pragma unroll
  for (int c = 0; c < kChunksPerStep; ++c) {
    uint32_t first[4], second[4];  // fragments of columns 0..3 and 4..7 of each lane
    if constexpr (K::kStepBytes == 512) {
      uint32_t upper[4], lower[4];
      Widen4(c == 0 ? low.x : low.z, upper);
      Widen4(c == 0 ? low.y : low.w, lower);
      first[0] = upper[0], first[1] = lower[0], first[2] = upper[1], first[3] = lower[1];
      second[0] = upper[2], second[1] = lower[2], second[2] = upper[3], second[3] = lower[3];
    } else {
      const uint4& w = c == 0 ? low : high;
      Widen8(w.x, first[0], first[2]);
      Widen8(w.y, second[0], second[2]);
      Widen8(w.z, first[1], first[3]);
      Widen8(w.w, second[1], second[3]);
    }
    const float2 scale = ScaleOf<K>(step + K::kStepBytes, g, c, by_chunk);
    const int chunk = index * kChunksPerStep + c;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      const int column = tile * 8 + g;
      uint4 b = {0, 0, 0, 0};
      if (column < columns) {
        b = *reinterpret_cast<const uint4*>(x.values + (chunk * columns + column) * kChunkColumns +
                                            t * 8);
      }
      const int token = min(tile * kTileTokens + t, x.rows - 1);
      const float4 facts =
          *reinterpret_cast<const float4*>(&x.facts[chunk * x.rows + token]);  // as SpanFacts
      float part[4] = {facts.x, facts.y, facts.x, facts.y};
      MultiplyTile<false>(part, first, b.x, b.y);
      MultiplyTile<false>(part, second, b.z, b.w);
      sums[tile][0] = fmaf(scale.x * facts.z, part[0] + part[1], sums[tile][0]);
      sums[tile][1] = fmaf(scale.y * facts.z, part[2] + part[3], sums[tile][1]);
      if constexpr (K::kHasMinimum) {
        const float2 minimum = ScaleOf<K>(step + K::kStepBytes + K::kScaleBytes, g, c, by_chunk);
        sums[tile][0] = fmaf(minimum.x, facts.w, sums[tile][0]);
        sums[tile][1] = fmaf(minimum.y, facts.w, sums[tile][1]);
      }
    }
  }
}

template <typename K, int kTiles>
__device__ __forceinline__ void MultiplyPlain(const unsigned char* step, int index,
                                              const StagedX& x, int lane, Sums<kTiles>& sums) {
  const int g = lane / 4, t = lane % 4, columns = x.rows * kSplits;
  float part[kTiles][4] = {};
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int piece = ((t * 2 + half) ^ g) * 16;
    const uint4 upper = *reinterpret_cast<const uint4*>(step + g * 128 + piece);
    const uint4 lower = *reinterpret_cast<const uint4*>(step + (g + 8) * 128 + piece);
    const uint32_t first[4] = {upper.x, lower.x, upper.y, lower.y};
    const uint32_t second[4] = {upper.z, lower.z, upper.w, lower.w};
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      const int column = tile * 8 + g;
      uint4 b = {0, 0, 0, 0};
      if (column < columns) {
        b = *reinterpret_cast<const uint4*>(x.values + (index * columns + column) * kStepColumns +
                                            t * 16 + half * 8);
      }
      MultiplyTile<K::kBf16>(part[tile], first, b.x, b.y);
      MultiplyTile<K::kBf16>(part[tile], second, b.z, b.w);
    }
  }
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
    float factor = 1.0f;
    if constexpr (!K::kBf16) {
      const int token = min(tile * kTileTokens + t, x.rows - 1);
      factor = x.facts[index * x.rows + token].factor;
    }
    sums[tile][0] = fmaf(factor, part[tile][0] + part[tile][1], sums[tile][0]);
    sums[tile][1] = fmaf(factor, part[tile][2] + part[tile][3], sums[tile][1]);
  }
}

// ---- Results -----------------------------------------------------------------------------------

__device__ __forceinline__ float Activate(RowActivation kind, float v) {
  switch (kind) {
    case RowActivation::kNone: return v;
    case RowActivation::kRelu: return fmaxf(v, 0.0f);
    case RowActivation::kSilu: return v / (1.0f + expf(-v));
    case RowActivation::kGelu: return 0.5f * v * (1.0f + erff(v * 0.70710678f));
    case RowActivation::kGeluTanh:
      return 0.5f * v * (1.0f + tanhf(0.79788456f * (v + 0.044715f * v * v * v)));
  }
  return v;
}

/// Eight rows of a strip gate the other eight. All lanes take part.
__device__ __forceinline__ void WriteGated(const FewRowsProduct& p, int strip, int lane, int token,
                                           float value) {
  const float up = __shfl_down_sync(~0u, value, 8);
  const int row = strip * 8 + lane;
  if (lane >= 8 || row >= p.part_rows[0]) return;
  float result = Activate(p.activation, value) * up;
  const int64_t at = static_cast<int64_t>(token) * p.part_rows[0] + row;
  if (p.addend != nullptr) result += p.addend[at];
  p.y[0][at] = result;
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
  float result = Activate(p.activation, value);
  const int64_t at = static_cast<int64_t>(token) * rows + row;
  if (part == 0 && p.addend != nullptr) result += p.addend[at];
  y[at] = result;
}

/// Adds what the warps have of a strip, the count-th of this block, and writes its results.
template <typename K, int kTiles>
__device__ __forceinline__ void FinishStrip(const FewRowsProduct& p, const Sums<kTiles>& sums,
                                            int strip, int count, float* reduce,
                                            const float* norm) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
  constexpr int kWarpSums = kTiles * kTileSums;
  float* mine = reduce + (count % 2 * K::kWarps + warp) * kWarpSums;
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
    mine[(tile * kTileTokens + t) * 16 + g] = sums[tile][0];
    mine[(tile * kTileTokens + t) * 16 + g + 8] = sums[tile][1];
  }
  __syncthreads();
  // One warp adds the others' sums while these go on; each strip has another one.
  if (warp != count % K::kWarps) return;
  const int r = lane % 16;
  for (int token = 0; token < p.rows; ++token) {
    const float* from = reduce + (count % 2 * K::kWarps + lane / 16 * (K::kWarps / 2)) * kWarpSums +
                        token * 16 + r;
    float value = 0;
#pragma unroll
    for (int i = 0; i < K::kWarps / 2; ++i) value += from[i * kWarpSums];
    value += __shfl_xor_sync(~0u, value, 16);
    value *= norm[token];
    if (p.bias != nullptr) value += p.bias[strip * kStripRows + r];
    if (p.gated) {
      WriteGated(p, strip, lane, token, value);
    } else if (lane < 16) {
      Write(p, strip * kStripRows + r, token, value);
    }
  }
}

template <typename K, int kTiles>
__global__ void __launch_bounds__(K::kThreads, kTiles == 1 ? 2 : 1)
    FewRowsKernel(const __grid_constant__ FewRowsProduct p) {
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ float squares[kFewRows * K::kWarps];
  __shared__ float norm[kFewRows];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int steps = p.weights.steps, strips = p.weights.strips;
  float* reduce = reinterpret_cast<float*>(shared + K::kWarps * K::kStages * K::kStageBytes);
  StagedX staged;
  staged.rows = p.rows;
  staged.facts = reinterpret_cast<SpanFacts*>(reduce + 2 * K::kWarps * kTiles * kTileSums);
  staged.values = reinterpret_cast<uint16_t*>(
      staged.facts + (K::kBf16 ? 0 : steps * (kStepColumns / K::kSpan) * p.rows));

  LaunchDependents();
  Ring<K> ring(p.weights, shared, lane, warp);
#pragma unroll
  for (int i = 0; i < K::kStages - 1; ++i) ring.Fetch();

  WaitForPredecessor();
  Stage<K>(p, staged, squares);
  __syncthreads();
  if (threadIdx.x < p.rows) {
    float sum = 0;
    for (int i = 0; i < K::kWarps; ++i) sum += squares[threadIdx.x * K::kWarps + i];
    norm[threadIdx.x] =
        p.gain != nullptr ? rsqrtf(sum / static_cast<float>(p.columns) + p.epsilon) : 1.0f;
  }

  const bool by_chunk = p.weights.group_shift < 0;
  for (int strip = blockIdx.x, count = 0; strip < strips;
       strip += static_cast<int>(gridDim.x), ++count) {
    Sums<kTiles> sums = {};
    for (int step = warp; step < steps; step += K::kWarps) {
      const unsigned char* taken = ring.Take();
      ring.Fetch();
      if constexpr (K::kPacked) {
        MultiplyPacked<K, kTiles>(taken, step, by_chunk, staged, lane, sums);
      } else {
        MultiplyPlain<K, kTiles>(taken, step, staged, lane, sums);
      }
    }
    FinishStrip<K, kTiles>(p, sums, strip, count, reduce, norm);
  }
}

// ---- Launches ----------------------------------------------------------------------------------

constexpr int TilesFor(int rows) { return rows <= kTileTokens ? 1 : rows <= 2 * kTileTokens ? 2 : 4; }

template <typename K>
int64_t SharedBytes(const FewRowsProduct& p) {
  const int64_t padded = static_cast<int64_t>(p.weights.steps) * kStepColumns;
  const int64_t facts =
      K::kBf16 ? 0 : padded / K::kSpan * p.rows * static_cast<int64_t>(sizeof(SpanFacts));
  return K::kWarps * K::kStages * K::kStageBytes +
         2 * K::kWarps * TilesFor(p.rows) * kTileSums * 4 + facts + padded * p.rows * kSplits * 2;
}

template <typename K, int kTiles>
void LaunchTiles(const Stream& stream, const FewRowsProduct& product, bool overlap) {
  const auto kernel = FewRowsKernel<K, kTiles>;
  const size_t shared = static_cast<size_t>(SharedBytes<K>(product));
  const int blocks = std::min(product.weights.strips, MultiprocessorCount(stream.device()));
  Launch(stream, {dim3(static_cast<unsigned>(blocks)), dim3(K::kThreads), shared, overlap}, kernel,
         product);
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
  const auto packed = [&]<typename Weights>(Weights) {
    if (w.f32_scales) {
      return w.minimums != nullptr ? visit(Kind<Weights, float2, true>())
                                   : visit(Kind<Weights, float2, false>());
    }
    return w.minimums != nullptr ? visit(Kind<Weights, __half2, true>())
                                 : visit(Kind<Weights, __half2, false>());
  };
  switch (w.format) {
    case DeviceFormat::kBf16: return visit(Kind<Bf16Weights, __half2, false>());
    case DeviceFormat::kF16: return visit(Kind<F16Weights, __half2, false>());
    case DeviceFormat::kInt8: return packed(Int8Weights());
    case DeviceFormat::kInt4: break;
  }
  return packed(Int4Weights());
}

}  // namespace

int64_t FewRowsShared(const FewRowsProduct& product) {
  return WithKind(product.weights, [&]<typename K>(K) { return SharedBytes<K>(product); });
}

void RunFewRows(const Stream& stream, const FewRowsProduct& product, bool overlap) {
  WithKind(product.weights, [&]<typename K>(K) { LaunchKind<K>(stream, product, overlap); });
}

}  // namespace oort::cuda
