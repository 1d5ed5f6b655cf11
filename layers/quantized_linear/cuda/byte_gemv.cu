// SPDX-License-Identifier: MIT
#include "layers/quantized_linear/cuda/byte_gemv.h"

#include "cuda/kernel_tools.h"
#include "cuda/launch.h"
#include "cuda/tiles.h"
#include "layers/attention/paged/cuda/fp8.h"
#include "layers/quantized_linear/cuda/gemv_finish.h"

namespace oort::cuda {
namespace {

constexpr int kWarps = 8, kByteGemvThreads = kWarps * 32;
/// Steps of a warp whose loads are on their way together.
constexpr int kAhead = 4;

/// Four bytes as f16, which has all their values.
template <ByteKind kKind>
__device__ __forceinline__ uint2 HalvesOf(uint32_t four) {
  if constexpr (kKind == ByteKind::kFp8) {
    const uint4 all = HalvesOfFp8(make_uint2(four, 0));
    return make_uint2(all.x, all.y);
  } else {
    // The bits of 1024 + 128 + q.
    const uint32_t whole = four ^ 0x80808080u;
    const __half2 offset = __float2half2_rn(1152.0f);
    const auto half = [&](uint32_t bits) {
      const __half2 value = __hsub2(*reinterpret_cast<const __half2*>(&bits), offset);
      return *reinterpret_cast<const uint32_t*>(&value);
    };
    return make_uint2(half(__byte_perm(whole, 0x64646464u, 0x4140)),
                      half(__byte_perm(whole, 0x64646464u, 0x4342)));
  }
}

/// What a lane has of some steps: 16 bytes of rows g and g + 8.
struct StepWords {
  uint4 upper[kAhead], lower[kAhead];

  __device__ __forceinline__ void Load(const uint8_t* row, int row_bytes, int first, int steps) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int step = first + i * kWarps;
      upper[i] = lower[i] = make_uint4(0, 0, 0, 0);
      if (step >= steps) continue;
      const uint8_t* const from = row + step * kStepColumns;
      upper[i] = __ldcs(reinterpret_cast<const uint4*>(from));
      lower[i] = __ldcs(reinterpret_cast<const uint4*>(from + 8 * row_bytes));
    }
  }
};

/// Adds the products of a step. Lane (g, t) has columns 16t … 16t + 15 of it, for all of which the
/// order is its own affair: weights and x have the same.
template <ByteKind kKind>
__device__ __forceinline__ void MultiplyStep(float (&sums)[4], const uint4& upper,
                                             const uint4& lower, const uint4 (&x)[2]) {
  const uint32_t above[4] = {upper.x, upper.y, upper.z, upper.w};
  const uint32_t below[4] = {lower.x, lower.y, lower.z, lower.w};
  const uint32_t b[8] = {x[0].x, x[0].y, x[0].z, x[0].w, x[1].x, x[1].y, x[1].z, x[1].w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint2 first = HalvesOf<kKind>(above[i]), second = HalvesOf<kKind>(below[i]);
    const uint32_t a[4] = {first.x, second.x, first.y, second.y};
    MultiplyTile<false>(sums, a, b[2 * i], b[2 * i + 1]);
  }
}

/// A block has a strip; its warps take the steps by turns.
template <ByteKind kKind>
__global__ void __launch_bounds__(kByteGemvThreads)
    ByteGemvKernel(const __grid_constant__ ByteGemv args) {
  constexpr int kResults = kStripRows * kByteGemvRows;
  __shared__ float parts[kWarps][kResults];
  LaunchDependents();
  const ByteWeights& w = args.weights;
  const GemvProduct& p = args.product;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int strip = static_cast<int>(blockIdx.x), steps = w.row_bytes / kStepColumns;
  const uint8_t* const row =
      w.data + (static_cast<int64_t>(strip) * kStripRows + g) * w.row_bytes + t * 16;
  // No kernel writes the weights, so the first ones are fetched while the preceding kernel still
  // runs.
  StepWords words;
  words.Load(row, w.row_bytes, warp, steps);
  WaitForPredecessor();
  // Rows that there are not repeat the first: nobody reads their results.
  const auto* const x = static_cast<const __half*>(args.x) +
                        static_cast<int64_t>(g < p.rows ? g : 0) * w.row_bytes + t * 16;
  float sums[4] = {};
  for (int first = warp; first < steps; first += kAhead * kWarps) {
    // All loads are on their way before the first is used. Behind the last step weights are zeros,
    // and x is what it is there.
    uint4 values[kAhead][2];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int step = min(first + i * kWarps, steps - 1);
      const auto* const from = reinterpret_cast<const uint4*>(x + step * kStepColumns);
      values[i][0] = from[0];
      values[i][1] = from[1];
    }
    StepWords ahead;
    ahead.Load(row, w.row_bytes, first + kAhead * kWarps, steps);
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      MultiplyStep<kKind>(sums, words.upper[i], words.lower[i], values[i]);
    }
    words = ahead;
  }
  parts[warp][2 * t * kStripRows + g] = sums[0];
  parts[warp][(2 * t + 1) * kStripRows + g] = sums[1];
  parts[warp][2 * t * kStripRows + g + 8] = sums[2];
  parts[warp][(2 * t + 1) * kStripRows + g + 8] = sums[3];
  __syncthreads();
  if (threadIdx.x >= kResults) return;  // whole warps
  const int r = static_cast<int>(threadIdx.x) % kStripRows;
  const int token = static_cast<int>(threadIdx.x) / kStripRows;
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kWarps; ++i) sum += parts[i][threadIdx.x];
  const bool here = token < p.rows;
  const int packed = strip * kStripRows + r;
  const float factor = (here ? args.factors[token] : 0.0f) * w.scales[packed];
  const float bias = p.bias != nullptr ? p.bias[packed] : 0.0f;
  const gemv::Target target(p, strip, r);
  const bool adds = here && target.addend != nullptr;
  const float addend = adds ? target.addend[static_cast<int64_t>(token) * target.rows] : 0.0f;
  const float value = gemv::FinishResult(p, fmaf(sum, factor, bias), addend);
  if (here && target.y != nullptr) target.y[static_cast<int64_t>(token) * target.rows] = value;
}

}  // namespace

void RunByteGemv(const Stream& stream, const ByteGemv& gemv) {
  const Grid grid{dim3(static_cast<unsigned>(gemv.weights.strips)), dim3(kByteGemvThreads), 0,
                  true};
  gemv.weights.kind == ByteKind::kFp8
      ? LaunchBetween(stream, grid, ByteGemvKernel<ByteKind::kFp8>, gemv)
      : LaunchBetween(stream, grid, ByteGemvKernel<ByteKind::kInt8>, gemv);
}

}  // namespace oort::cuda
