// SPDX-License-Identifier: MIT
// What one warp computes of a product of two matrices in shared memory. Both are stored row by row
// (the second one transposed), 128 bytes a row; the 16-byte pieces of row r are permuted by piece ^
// (r % 8), so that neither the copies into it nor the reads here have bank conflicts.
#pragma once

#include <cstdint>

#include "cuda/epilogue.cuh"
#include "layers/convolution/cuda/conv.h"

namespace oort::cuda {

inline constexpr int kRowBytes = 128;

__device__ inline uint32_t PieceAt(int row, int piece) {
  return static_cast<uint32_t>(row * kRowBytes + ((piece ^ (row & 7)) << 4));
}

/// Elements of images by the math that multiplies them.
template <ConvMath math>
struct ConvItem {
  using Type = float;
};
template <>
struct ConvItem<ConvMath::kF16> {
  using Type = __half;
};
template <>
struct ConvItem<ConvMath::kBF16> {
  using Type = __nv_bfloat16;
};

/// Four 8 by 8 matrices of 16-bit elements, or 8 by 4 of 32-bit ones: lane i has word i % 4 of row
/// i / 4 of each. Lane i gives the address of row i % 8 of matrix i / 8.
__device__ inline void LoadMatrices(uint32_t (&words)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(address));
}

template <ConvMath math>
__device__ inline void MultiplyAdd(float (&sum)[4], const uint32_t (&a)[4], uint32_t b0,
                                   uint32_t b1) {
  if constexpr (math == ConvMath::kF16) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else if constexpr (math == ConvMath::kBF16) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

/// Rounds f32 to tf32, because the tensor cores would truncate the mantissa to 10 bits.
template <ConvMath math>
__device__ inline void RoundWords(uint32_t (&words)[4]) {
  if constexpr (math == ConvMath::kTF32) {
    for (uint32_t& word : words) {
      asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(word) : "f"(__uint_as_float(word)));
    }
  }
}

/// `rows` by `columns` on tensor cores. A step is 32 bytes of a row: 16 or 8 elements.
template <ConvMath math, int rows, int columns>
class WarpTile {
 public:
  static constexpr int kDown = rows / 16, kPairs = columns / 16, kSteps = kRowBytes / 32;
  static_assert(rows % 16 == 0 && columns % 16 == 0);

  /// Adds the product of rows from `a` on and of columns from `b` on, addresses in shared memory.
  __device__ void Add(uint32_t a, uint32_t b, int lane) {
    uint32_t left[2][kDown][4], right[2][kPairs][4];
    Load(left[0], right[0], a, b, lane, 0);
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      if (step + 1 < kSteps)
        Load(left[(step + 1) & 1], right[(step + 1) & 1], a, b, lane, step + 1);
#pragma unroll
      for (int i = 0; i < kDown; ++i) {
#pragma unroll
        for (int j = 0; j < kPairs; ++j) {
          const uint32_t(&words)[4] = right[step & 1][j];
          MultiplyAdd<math>(sums_[i][2 * j], left[step & 1][i], words[0], words[1]);
          MultiplyAdd<math>(sums_[i][2 * j + 1], left[step & 1][i], words[2], words[3]);
        }
      }
    }
  }

  /// Writes the sums, `stride` floats a row.
  __device__ void Store(float* to, int stride, int lane) const {
#pragma unroll
    for (int i = 0; i < kDown; ++i) {
#pragma unroll
      for (int j = 0; j < 2 * kPairs; ++j) {
        float* at = to + (16 * i + lane / 4) * stride + 8 * j + 2 * (lane % 4);
        *reinterpret_cast<float2*>(at) = make_float2(sums_[i][j][0], sums_[i][j][1]);
        *reinterpret_cast<float2*>(at + 8 * stride) = make_float2(sums_[i][j][2], sums_[i][j][3]);
      }
    }
  }

 private:
  __device__ static void Load(uint32_t (&left)[kDown][4], uint32_t (&right)[kPairs][4], uint32_t a,
                              uint32_t b, int lane, int step) {
#pragma unroll
    for (int i = 0; i < kDown; ++i) {
      LoadMatrices(left[i], a + PieceAt(16 * i + lane % 16, 2 * step + lane / 16));
      RoundWords<math>(left[i]);
    }
#pragma unroll
    for (int j = 0; j < kPairs; ++j) {
      const int row = 16 * j + lane % 8 + lane / 16 * 8;
      LoadMatrices(right[j], b + PieceAt(row, 2 * step + lane / 8 % 2));
      RoundWords<math>(right[j]);
    }
  }

  float sums_[kDown][2 * kPairs][4] = {};
};

/// In f32 throughout: lanes are 4 rows by 8 columns.
template <int rows, int columns>
class WarpTile<ConvMath::kF32, rows, columns> {
 public:
  static constexpr int kDown = rows / 4, kAlong = columns / 8;

  __device__ void Add(uint32_t a, uint32_t b, int lane) {
#pragma unroll 2
    for (int piece = 0; piece < kRowBytes / 16; ++piece) {
      float4 right[kAlong];
#pragma unroll
      for (int j = 0; j < kAlong; ++j) right[j] = Piece(b, lane % 8 + 8 * j, piece);
#pragma unroll
      for (int i = 0; i < kDown; ++i) {
        const float4 left = Piece(a, lane / 8 + 4 * i, piece);
#pragma unroll
        for (int j = 0; j < kAlong; ++j) {
          float& sum = sums_[i][j];
          sum = fmaf(left.x, right[j].x, sum);
          sum = fmaf(left.y, right[j].y, sum);
          sum = fmaf(left.z, right[j].z, sum);
          sum = fmaf(left.w, right[j].w, sum);
        }
      }
    }
  }

  __device__ void Store(float* to, int stride, int lane) const {
#pragma unroll
    for (int i = 0; i < kDown; ++i) {
#pragma unroll
      for (int j = 0; j < kAlong; ++j) {
        to[(lane / 8 + 4 * i) * stride + lane % 8 + 8 * j] = sums_[i][j];
      }
    }
  }

 private:
  __device__ static float4 Piece(uint32_t base, int row, int piece) {
    float4 value;
    asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];"
                 : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
                 : "r"(base + PieceAt(row, piece)));
    return value;
  }

  float sums_[kDown][kAlong] = {};
};

}  // namespace oort::cuda
