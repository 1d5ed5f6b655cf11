// SPDX-License-Identifier: MIT
// Makes results of the sums that the lanes of a warp have in their registers.
#pragma once

#include "layers/quantize/cuda/byte_epilogue.cuh"
#include "layers/quantize/cuda/byte_gemm.h"

namespace oort::cuda {

/// Neighbouring filters that a lane has of each of its rows: see FilterAt.
inline constexpr int kLaneFilters = 8;

/// Taps of an axis from `begin` up to `end` that see no padding.
struct SeenTaps {
  int begin, end;
  __device__ SeenTaps(const ConvWalk& walk, int i) {
    const int start = i * walk.stride - walk.pad;
    begin = start < 0 ? min((-start + walk.dilation - 1) / walk.dilation, walk.kernel) : 0;
    const int left = start < walk.in ? (walk.in - start + walk.dilation - 1) / walk.dilation : 0;
    end = max(begin, min(walk.kernel, left));
  }
  __device__ bool All(const ConvWalk& walk) const { return begin == 0 && end == walk.kernel; }
};

/// Makes results of the sums of 8 neighbouring filters.
class ByteWriter {
 public:
  __device__ ByteWriter(const ByteGemm& conv, int first_filter, int group)
      : conv_(conv),
        left_(conv.filters - first_filter),
        filter_(group * conv.filters + first_filter),
        padded_(group * conv.gemm.filters + first_filter) {
    if (left_ <= 0) return;
    LoadPiece(scale_, conv.epilogue.scale + padded_);
    LoadPiece(bias_, conv.epilogue.bias + padded_);
  }

  /// What the sums begin with; zeros behind the last filter.
  __device__ static void LoadStarts(const ByteGemm& conv, int first_filter, int group,
                                    int (&starts)[kLaneFilters]) {
#pragma unroll
    for (int q = 0; q < kLaneFilters; ++q) starts[q] = 0;
    if (first_filter >= conv.filters) return;
    LoadPiece(starts, conv.epilogue.starts + group * conv.gemm.filters + first_filter);
  }

  __device__ bool IsHere(int row) const { return left_ > 0 && row < conv_.gemm.rows; }

  __device__ uint2 Addend(int row) const {
    uint2 addend = make_uint2(0, 0);
    if (conv_.epilogue.addend == nullptr || !IsHere(row)) return addend;
    const uint8_t* from = static_cast<const uint8_t*>(conv_.epilogue.addend) + PlaceOf(row);
    if (conv_.whole_pieces) return *reinterpret_cast<const uint2*>(from);
#pragma unroll
    for (int q = 0; q < kLaneFilters; ++q) {
      if (q < left_) (q < 4 ? addend.x : addend.y) |= uint32_t{from[q]} << (q % 4 * 8);
    }
    return addend;
  }

  /// The same for what ByteGemm calls plain, with few instructions.
  __device__ void WritePlain(int row, const int (&sums)[kLaneFilters], const uint2& addend) const {
    if (!IsHere(row)) return;
    const ByteEpilogue& epilogue = conv_.epilogue;
    uint32_t bits[kLaneFilters];
#pragma unroll
    for (int q = 0; q < kLaneFilters; ++q) {
      float value = __fmaf_rn(__int2float_rn(sums[q]), scale_[q], bias_[q]);
      if (epilogue.addend != nullptr) {
        value = __fmaf_rn(PlainAddend(q < 4 ? addend.x : addend.y, q % 4), epilogue.addend_scale,
                          value);
      }
      bits[q] = ByteBits(conv_.rounding, value);
    }
    uint8_t* out = static_cast<uint8_t*>(conv_.gemm.out) + PlaceOf(row);
    *reinterpret_cast<uint2*>(out) = make_uint2(WordOf(bits), WordOf(bits + 4));
  }

  __device__ void Write(int row, int (&sums)[kLaneFilters], const uint2& addend) const {
    if (!IsHere(row)) return;
    if (conv_.padding.zero_point != 0) AddPadding(row, sums);
    float values[kLaneFilters];
#pragma unroll
    for (int q = 0; q < kLaneFilters; ++q) {
      const uint32_t byte = (q < 4 ? addend.x : addend.y) >> (q % 4 * 8);
      values[q] = FinishSum(conv_.epilogue, sums[q], scale_[q], bias_[q], byte);
    }
    if (conv_.epilogue.bytes) {
      StoreBytes(row, values);
    } else {
      StoreNumbers(row, values);
    }
  }

 private:
  /// A byte of an addend as a number: the last one of the bits of 2^23 and more.
  __device__ float PlainAddend(uint32_t word, int byte) const {
    const uint32_t bits = __byte_perm(word ^ conv_.addend_flip, 0x4b000000u, 0x7650 + byte);
    return __fsub_rn(__uint_as_float(bits), conv_.addend_origin);
  }

  template <typename T>
  __device__ static void LoadPiece(T (&values)[kLaneFilters], const T* from) {
    *reinterpret_cast<uint4*>(values) = *reinterpret_cast<const uint4*>(from);
    *reinterpret_cast<uint4*>(values + 4) = *reinterpret_cast<const uint4*>(from + 4);
  }

  __device__ int64_t PlaceOf(int row) const {
    return static_cast<int64_t>(row) * conv_.gemm.out_pixel + filter_;
  }

  /// Zeros stood for padding, from which `starts` took the zero point.
  __device__ void AddPadding(int row, int (&sums)[kLaneFilters]) const {
    const BytePadding& padding = conv_.padding;
    const int pixel = row % conv_.gemm.out_plane;
    const SeenTaps down(padding.height, pixel / conv_.gemm.out_width);
    const SeenTaps along(padding.width, pixel % conv_.gemm.out_width);
    if (down.All(padding.height) && along.All(padding.width)) return;
    AddSums(sums, padding.height.kernel, padding.width.kernel, padding.zero_point);
    AddSums(sums, down.end, along.end, -padding.zero_point);
    AddSums(sums, down.begin, along.end, padding.zero_point);
    AddSums(sums, down.end, along.begin, padding.zero_point);
    AddSums(sums, down.begin, along.begin, -padding.zero_point);
  }

  __device__ void AddSums(int (&sums)[kLaneFilters], int row, int column, int factor) const {
    const BytePadding& padding = conv_.padding;
    if (row == 0 || column == 0) return;
    int weights[kLaneFilters];
    LoadPiece(weights, padding.weight_sums +
                           static_cast<int64_t>(row * (padding.width.kernel + 1) + column) *
                               padding.filters +
                           padded_);
#pragma unroll
    for (int q = 0; q < kLaneFilters; ++q) sums[q] += factor * weights[q];
  }

  __device__ void StoreBytes(int row, const float (&values)[kLaneFilters]) const {
    uint32_t words[2] = {0, 0};
#pragma unroll
    for (int q = 0; q < kLaneFilters; ++q) {
      words[q / 4] |= ByteOf(conv_.epilogue, values[q]) << (q % 4 * 8);
    }
    uint8_t* out = static_cast<uint8_t*>(conv_.gemm.out) + PlaceOf(row);
    if (conv_.whole_pieces) {
      *reinterpret_cast<uint2*>(out) = make_uint2(words[0], words[1]);
      return;
    }
#pragma unroll
    for (int q = 0; q < kLaneFilters; ++q) {
      if (q < left_) out[q] = static_cast<uint8_t>(words[q / 4] >> (q % 4 * 8));
    }
  }

  __device__ void StoreNumbers(int row, const float (&values)[kLaneFilters]) const {
    float* out = static_cast<float*>(conv_.gemm.out) + PlaceOf(row);
    if (conv_.whole_pieces) {
      reinterpret_cast<float4*>(out)[0] = make_float4(values[0], values[1], values[2], values[3]);
      reinterpret_cast<float4*>(out)[1] = make_float4(values[4], values[5], values[6], values[7]);
      return;
    }
#pragma unroll
    for (int q = 0; q < kLaneFilters; ++q) {
      if (q < left_) out[q] = values[q];
    }
  }

  const ByteGemm& conv_;
  int left_, filter_, padded_;  // filters from here on, and the place of the first
  alignas(16) float scale_[kLaneFilters];
  alignas(16) float bias_[kLaneFilters];
};

}  // namespace oort::cuda
