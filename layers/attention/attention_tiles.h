// SPDX-License-Identifier: MIT
// Attention of 16 queries with tiles of keys and values on tensor cores, in f16 or bf16, by one
// warp. For .cu files.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cfloat>
#include <cstdint>

#include "cuda/tiles.h"

namespace oort::cuda::attention_tiles {

/// A maximum of nothing: finite, so that differences are no NaN. No finite score is smaller.
constexpr float kLowest = -FLT_MAX;

/// The byte offset of a 16-byte piece of a row in a tile. Pieces are swizzled by the row, to avoid
/// bank conflicts: ldmatrix reads one piece of eight rows, which must lie in different eighths of
/// 128 bytes. Rows of an odd multiple of 16, 32 or 64 bytes already differ in part.
template <int kDim>
__device__ __forceinline__ uint32_t PieceAt(int row, int piece) {
  static_assert(kDim % 16 == 0);
  constexpr int kPieces = kDim / 8;
  constexpr int kSwizzled = kPieces % 8 == 0 ? 8 : kPieces % 4 == 0 ? 4 : 2;
  const int turn = row / (8 / kSwizzled) % kSwizzled;
  return static_cast<uint32_t>(row * kDim * 2 + ((piece ^ turn) * 16));
}

__device__ __forceinline__ void LoadMatrices(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}
__device__ __forceinline__ void LoadTransposed(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}
template <bool kBf16>
__device__ __forceinline__ uint32_t PackPair(float low, float high) {
  if constexpr (kBf16) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const uint32_t*>(&pair);
  } else {
    const __half2 pair = __floats2half2_rn(low, high);
    return *reinterpret_cast<const uint32_t*>(&pair);
  }
}

/// The online softmax of the two rows of a lane, g and g + 8.
template <int kDim>
struct RunningRows {
  float largest[2] = {kLowest, kLowest}, weight[2] = {0, 0};
  float sums[kDim / 8][4] = {};
};

/// Scores of 16 queries and kKeys keys.
template <bool kBf16, int kDim, int kKeys>
__device__ __forceinline__ void Score(const uint32_t (&queries)[kDim / 16][4], uint32_t keys,
                                      float (&scores)[kKeys / 8][4]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int n = 0; n < kKeys / 8; ++n) scores[n][0] = scores[n][1] = scores[n][2] = scores[n][3] = 0;
#pragma unroll
  for (int k = 0; k < kDim / 16; ++k) {
#pragma unroll
    for (int n = 0; n < kKeys / 8; n += 2) {
      // Matrices: keys n*8.. and (n+1)*8.., each with elements k*16.. and k*16+8...
      const int row = n * 8 + lane / 16 * 8 + lane % 8, piece = k * 2 + lane / 8 % 2;
      uint32_t b[4];
      LoadMatrices(b, keys + PieceAt<kDim>(row, piece));
      MultiplyTile<kBf16>(scores[n], queries[k], b[0], b[1]);
      MultiplyTile<kBf16>(scores[n + 1], queries[k], b[2], b[3]);
    }
  }
}

/// Turns scores into weights and rescales what was summed so far to the new maximum. Scores of keys
/// that a query does not see are minus infinity; NaN stays NaN.
template <int kDim, int kKeys>
__device__ __forceinline__ void TurnIntoWeights(float (&scores)[kKeys / 8][4],
                                                RunningRows<kDim>& rows) {
  float largest[2] = {rows.largest[0], rows.largest[1]};
#pragma unroll
  for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) largest[i / 2] = fmaxf(largest[i / 2], scores[n][i]);
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    largest[half] = fmaxf(largest[half], __shfl_xor_sync(~0u, largest[half], 1));
    largest[half] = fmaxf(largest[half], __shfl_xor_sync(~0u, largest[half], 2));
    const float shrink = __expf(rows.largest[half] - largest[half]);
    rows.largest[half] = largest[half];
    rows.weight[half] *= shrink;
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n) {
      rows.sums[n][2 * half] *= shrink;
      rows.sums[n][2 * half + 1] *= shrink;
    }
  }
#pragma unroll
  for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float weight = __expf(scores[n][i] - rows.largest[i / 2]);
      scores[n][i] = weight;
      rows.weight[i / 2] += weight;
    }
  }
}

template <bool kBf16, int kDim, int kKeys>
__device__ __forceinline__ void AddValues(const float (&weights)[kKeys / 8][4], uint32_t values,
                                          RunningRows<kDim>& rows) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int k = 0; k < kKeys / 16; ++k) {
    const uint32_t a[4] = {PackPair<kBf16>(weights[2 * k][0], weights[2 * k][1]),
                           PackPair<kBf16>(weights[2 * k][2], weights[2 * k][3]),
                           PackPair<kBf16>(weights[2 * k + 1][0], weights[2 * k + 1][1]),
                           PackPair<kBf16>(weights[2 * k + 1][2], weights[2 * k + 1][3])};
#pragma unroll
    for (int n = 0; n < kDim / 8; n += 2) {
      // Matrices: keys k*16.. and k*16+8.., each with elements n*8.. and (n+1)*8...
      const int row = k * 16 + lane / 8 % 2 * 8 + lane % 8, piece = n + lane / 16;
      uint32_t b[4];
      LoadTransposed(b, values + PieceAt<kDim>(row, piece));
      MultiplyTile<kBf16>(rows.sums[n], a, b[0], b[1]);
      MultiplyTile<kBf16>(rows.sums[n + 1], a, b[2], b[3]);
    }
  }
}

/// The sum of a row's weights, which the four lanes of the row have in parts.
__device__ __forceinline__ float WholeWeight(float weight) {
  weight += __shfl_xor_sync(~0u, weight, 1);
  return weight + __shfl_xor_sync(~0u, weight, 2);
}

}  // namespace oort::cuda::attention_tiles
