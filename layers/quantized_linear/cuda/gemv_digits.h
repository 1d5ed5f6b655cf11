// SPDX-License-Identifier: MIT
// Elements of x in the layout of the tensor cores. For the kernels of gemv*.cu alone.
//
// For plain weights an element of x is the sum of two 16-bit numbers. For packed weights it is an
// integer of 30 bits times a power of two that 256 neighbours share, and the integer is split into
// four signed digits of eight bits. With 4-bit weights every second pair of columns meets the upper
// halves of bytes, which count sixteenfold: there the element is divided by 16. Of few digits it is
// an integer of 14 bits times a power of two that 64 neighbours share, in two digits.
#pragma once

#include "layers/quantized_linear/cuda/gemv_parts.h"

namespace oort::cuda::gemv {

/// What the sums of a span are multiplied by, for two columns of the second factor.
struct SpanFactor {
  float factor;
  float sum;  ///< of its elements, for formats with minimums; in the first pair of columns alone
};

struct StagedX {
  unsigned char* values;  ///< (steps, columns of the second factor, kStepBytes)
  /// (spans, pairs of columns, 2), for packed weights: the start of the sums of a span. It cancels
  /// the offset of stored weights (8 or 128), and includes the bits of kWhole, so that a sum read
  /// as a float is kWhole plus the result.
  int* starts;
  SpanFactor* factors;  ///< (spans, pairs of columns), but for bf16
  int rows;
  Cluster cluster;  ///< whose blocks all get what one of them stages
};

template <int kLanes>
__device__ __forceinline__ void AddUp(float& value) {
#pragma unroll
  for (int offset = kLanes / 2; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(~0u, value, offset);
  }
}

/// Eight neighbours, which a lane stages at a time.
struct Eight {
  float v[8];
};
__device__ __forceinline__ Eight LoadEight(const float* from) {
  const float4 low = reinterpret_cast<const float4*>(from)[0];
  const float4 high = reinterpret_cast<const float4*>(from)[1];
  return {{low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}};
}
/// Of any number of columns.
__device__ __forceinline__ Eight LoadSome(const float* from, uint32_t first, uint32_t columns) {
  Eight out;
#pragma unroll
  for (int i = 0; i < 8; ++i) out.v[i] = first + i < columns ? from[first + i] : 0.0f;
  return out;
}

/// The biased exponent of the largest magnitude in a warp. Magnitudes have the same order as their
/// bits. The result is 255 where a number is not finite.
__device__ __forceinline__ uint32_t LargestExponent(const float (&v)[8]) {
  float largest = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(largest) : "f"(largest), "f"(fabsf(v[i])));
  }
  return __reduce_max_sync(~0u, __float_as_uint(largest)) >> 23;
}
/// The same of groups of eight lanes.
__device__ __forceinline__ uint32_t LargestExponentOfStep(const float (&v)[8]) {
  float largest = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(largest) : "f"(largest), "f"(fabsf(v[i])));
  }
  uint32_t bits = __float_as_uint(largest);
#pragma unroll
  for (int offset = 4; offset > 0; offset /= 2) {
    bits = max(bits, __shfl_xor_sync(~0u, bits, offset));
  }
  return bits >> 23;
}
/// 2 to the power of exponent - 127.
__device__ __forceinline__ float PowerOfTwo(uint32_t exponent) {
  return __uint_as_float(exponent << 23);
}

/// Which eight elements of which row a lane stages. Elements beyond the row lie behind the last
/// step.
struct Place {
  uint32_t piece, row;
  bool real;
};

/// Eight elements as two numbers of 16 bits each.
template <typename K>
__device__ __forceinline__ void StagePlain(const float (&v)[8], const Place& at,
                                           const StagedX& staged) {
  const uint32_t place = at.piece / 8 * staged.rows + at.row;
  uint32_t a[4], b[4];
  float range = 1;
  if constexpr (!K::kBf16) {
    // Near 4096, well inside of f16.
    const uint32_t exponent = max(LargestExponent(v), 39u);
    if (exponent < 255) range = PowerOfTwo(266 - exponent);
    if (at.real && at.piece % 8 == 0) {
      staged.factors[place] = {PowerOfTwo(min(exponent, 254u) - 12), 0};
    }
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (K::kBf16) {
      const __nv_bfloat162 first = __floats2bfloat162_rn(v[2 * i], v[2 * i + 1]);
      const float2 back = __bfloat1622float2(first);
      const __nv_bfloat162 rest = __floats2bfloat162_rn(v[2 * i] - back.x, v[2 * i + 1] - back.y);
      a[i] = *reinterpret_cast<const uint32_t*>(&first);
      b[i] = *reinterpret_cast<const uint32_t*>(&rest);
    } else {
      const float low = v[2 * i] * range, high = v[2 * i + 1] * range;
      const __half2 first = __floats2half2_rn(low, high);
      const float2 back = __half22float2(first);
      const __half2 rest = __floats2half2_rn(low - back.x, high - back.y);
      a[i] = *reinterpret_cast<const uint32_t*>(&first);
      b[i] = *reinterpret_cast<const uint32_t*>(&rest);
    }
  }
  if (!at.real) return;
  unsigned char* to = staged.values + place * 2 * K::kStepBytes + at.piece % 8 * 16;
  *reinterpret_cast<uint4*>(to) = {a[0], a[1], a[2], a[3]};
  *reinterpret_cast<uint4*>(to + K::kStepBytes) = {b[0], b[1], b[2], b[3]};
}

/// Digits with signs times numbers without.
__device__ __forceinline__ int AddProducts(uint32_t digits, uint32_t numbers, int sum) {
  asm("dp4a.s32.u32 %0, %1, %2, %0;" : "+r"(sum) : "r"(digits), "r"(numbers));
  return sum;
}

/// Eight elements as four digits each. Of a step a lane of a worker takes 16 bytes of a column:
/// eight neighbours of the first chunk, eight of the second.
template <typename K>
__device__ __forceinline__ void StageDigits(const float (&v)[8], const Place& at, bool zero_based,
                                            const StagedX& staged) {
  const uint32_t exponent = LargestExponent(v), least = max(exponent, 30u);
  const uint32_t lane = threadIdx.x % 32;
  constexpr uint32_t kLanes = K::kSpan / 8;  // of a span
  float sum = 0;
  if constexpr (K::kHasMinimum) {
#pragma unroll
    for (int i = 0; i < 8; ++i) sum += v[i];
    AddUp<kLanes>(sum);
  }
  const float range = PowerOfTwo(283 - least);
  uint32_t n[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    // Bytes stand in the order of PlaceOf: the upper halves of bytes are columns 2, 6, 3, 7.
    const int column = K::kNibbles ? (i & 4) / 2 + (i & 2) / 2 + (i & 1) * 4 : i;
    const float part = K::kNibbles && i >= 4 ? 1.0f / 16 : 1.0f;
    // Carries go into the next higher digit, so that all digits are signed.
    n[i] = static_cast<uint32_t>(__float2int_rn(v[column] * (range * part))) + 0x00808080u;
  }
  uint32_t digits[2][4];  // of the first and the last four
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const uint32_t* four = n + i * 4;
    const uint32_t low01 = __byte_perm(four[0], four[1], 0x5140);
    const uint32_t low23 = __byte_perm(four[2], four[3], 0x5140);
    const uint32_t high01 = __byte_perm(four[0], four[1], 0x7362);
    const uint32_t high23 = __byte_perm(four[2], four[3], 0x7362);
    digits[i][0] = __byte_perm(low01, low23, 0x5410) ^ 0x80808080u;
    digits[i][1] = __byte_perm(low01, low23, 0x7632) ^ 0x80808080u;
    digits[i][2] = __byte_perm(high01, high23, 0x5410) ^ 0x80808080u;
    digits[i][3] = __byte_perm(high01, high23, 0x7632);
  }
  unsigned char* to = staged.values +
                      (at.piece / 8 * staged.rows + at.row) * K::kSplits * K::kStepBytes +
                      at.piece % 4 * 16 + at.piece / 4 % 2 * 8;
  int offsets[4];
  const uint32_t low = !K::kNibbles ? 0x80808080u : zero_based ? 0u : 0x08080808u;
#pragma unroll
  for (int d = 0; d < 4; ++d) {
    if (at.real) *reinterpret_cast<uint2*>(to + d * K::kStepBytes) = {digits[0][d], digits[1][d]};
    offsets[d] = AddProducts(digits[0][d], low, 0);
    offsets[d] = AddProducts(digits[1][d], K::kNibbles ? low << 4 : low, offsets[d]);
  }
  // A butterfly: lanes exchange halves until each has the sum of one digit. The last bits of a lane
  // say of which.
#pragma unroll
  for (int half = 2, offset = 1; half > 0; half /= 2, offset *= 2) {
    const bool upper = (lane & offset) != 0;
#pragma unroll
    for (int i = 0; i < half; ++i) {
      const int given = upper ? offsets[i] : offsets[i + half];
      const int kept = upper ? offsets[i + half] : offsets[i];
      offsets[i] = kept + __shfl_xor_sync(~0u, given, offset);
    }
  }
  if constexpr (kLanes == 8) offsets[0] += __shfl_xor_sync(~0u, offsets[0], 4);
  if (!at.real || lane % kLanes >= 4) return;
  const uint32_t pair = (at.piece / kLanes * staged.rows + at.row) * K::kPairsPerRow;
  staged.starts[(pair + lane % 2) * 2 + lane / 2 % 2] = kWholeBits - offsets[0];
  if (lane % kLanes == 0) {
    // Numbers that are not finite make the result NaN.
    const float factor = exponent == 255 ? __uint_as_float(0x7fffffff) : PowerOfTwo(least - 29);
    staged.factors[pair] = {factor, sum};
    staged.factors[pair + 1] = {factor * 65536.0f, 0.0f};
  }
}

/// Eight elements as two digits each, in the same places.
template <typename K>
__device__ __forceinline__ void StageFewDigits(const float (&v)[8], const Place& at,
                                               bool zero_based, const StagedX& staged) {
  const uint32_t exponent = LargestExponentOfStep(v), least = max(exponent, 14u);
  const uint32_t lane = threadIdx.x % 32;
  constexpr uint32_t kLanes = K::kSpan / 8;  // of a span
  float sum = 0;
  if constexpr (K::kHasMinimum) {
#pragma unroll
    for (int i = 0; i < 8; ++i) sum += v[i];
    AddUp<kLanes>(sum);
  }
  const float range = PowerOfTwo(267 - least);
  uint32_t n[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int column = K::kNibbles ? (i & 4) / 2 + (i & 2) / 2 + (i & 1) * 4 : i;
    n[i] = static_cast<uint32_t>(__float2int_rn(v[column] * range)) + 0x80u;
  }
  uint32_t digits[2][2];  // of the first and the last four
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const uint32_t* four = n + i * 4;
    const uint32_t both01 = __byte_perm(four[0], four[1], 0x5140);
    const uint32_t both23 = __byte_perm(four[2], four[3], 0x5140);
    digits[i][0] = __byte_perm(both01, both23, 0x5410) ^ 0x80808080u;
    digits[i][1] = __byte_perm(both01, both23, 0x7632);
  }
  unsigned char* to = staged.values +
                      (at.piece / 8 * staged.rows + at.row) * K::kSplits * K::kStepBytes +
                      at.piece % 4 * 16 + at.piece / 4 % 2 * 8;
  const uint32_t low = !K::kNibbles ? 0x80808080u : zero_based ? 0u : 0x08080808u;
  int offsets[2];
#pragma unroll
  for (int d = 0; d < 2; ++d) {
    if (at.real) {
      staged.cluster.Store(reinterpret_cast<uint2*>(to + d * K::kStepBytes),
                           {digits[0][d], digits[1][d]});
    }
    offsets[d] = AddProducts(digits[1][d], low, AddProducts(digits[0][d], low, 0));
  }
  // The last bit of a lane says the sum of which digit it gets.
  const bool upper = (lane & 1) != 0;
  int offset = upper ? offsets[1] : offsets[0];
  offset += __shfl_xor_sync(~0u, upper ? offsets[0] : offsets[1], 1);
#pragma unroll
  for (uint32_t far = 2; far < kLanes; far *= 2) offset += __shfl_xor_sync(~0u, offset, far);
  if (!at.real || lane % kLanes >= 2) return;
  const uint32_t pair = at.piece / kLanes * staged.rows + at.row;
  staged.cluster.Store(&staged.starts[pair * 2 + lane % 2], kWholeBits - offset);
  if (lane % kLanes == 0) {
    const float factor = exponent == 255 ? __uint_as_float(0x7fffffff) : PowerOfTwo(least - 13);
    staged.cluster.Store(&staged.factors[pair], {factor, sum});
  }
}

}  // namespace oort::cuda::gemv
