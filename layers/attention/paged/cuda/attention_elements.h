// SPDX-License-Identifier: MIT
// Eight elements of a head, which is what a lane works on: loaded from the cache, rotated (RoPE, Su
// et al. 2021), and as running results of the online softmax. For decode_attention.cu alone.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "layers/attention/paged/cuda/fp8.h"

namespace oort::cuda::attention {

constexpr float kNone = -1e30f;  // a maximum of nothing: finite, so that differences are no NaN

struct Eight {
  float v[8] = {};
};

/// Of eight f16.
__device__ __forceinline__ Eight WidenHalves(const uint4& bits) {
  const __half2* pairs = reinterpret_cast<const __half2*>(&bits);
  Eight out;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 pair = __half22float2(pairs[i]);
    out.v[2 * i] = pair.x;
    out.v[2 * i + 1] = pair.y;
  }
  return out;
}

/// Eight neighbouring elements of the cache as they lie there.
template <typename Element>
struct Packed;
template <>
struct Packed<__half> {
  static constexpr int kAhead = 4;  // tokens whose keys and values a team has on their way
  static constexpr bool kScaled = false;
  uint4 bits = {0, 0, 0, 0};
  __device__ __forceinline__ void Load(const __half* from) {
    bits = *reinterpret_cast<const uint4*>(from);
  }
  __device__ __forceinline__ void Store(__half* to) const { *reinterpret_cast<uint4*>(to) = bits; }
  static __device__ __forceinline__ Packed Of(const Eight& eight) {
    Packed out;
    __half2* pairs = reinterpret_cast<__half2*>(&out.bits);
#pragma unroll
    for (int i = 0; i < 4; ++i) pairs[i] = __floats2half2_rn(eight.v[2 * i], eight.v[2 * i + 1]);
    return out;
  }
  __device__ __forceinline__ Eight Widen() const { return WidenHalves(bits); }
};
template <>
struct Packed<float> {
  static constexpr int kAhead = 2;
  static constexpr bool kScaled = false;
  float4 low = {0, 0, 0, 0}, high = {0, 0, 0, 0};
  __device__ __forceinline__ void Load(const float* from) {
    low = *reinterpret_cast<const float4*>(from);
    high = *reinterpret_cast<const float4*>(from + 4);
  }
  __device__ __forceinline__ void Store(float* to) const {
    *reinterpret_cast<float4*>(to) = low;
    *reinterpret_cast<float4*>(to + 4) = high;
  }
  static __device__ __forceinline__ Packed Of(const Eight& eight) {
    const float(&v)[8] = eight.v;
    Packed out;
    out.low = {v[0], v[1], v[2], v[3]}, out.high = {v[4], v[5], v[6], v[7]};
    return out;
  }
  __device__ __forceinline__ Eight Widen() const {
    return {{low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}};
  }
};

/// Of int8; the token's scale is loaded apart.
template <>
struct Packed<int8_t> {
  static constexpr int kAhead = 4;
  static constexpr bool kScaled = true;
  uint2 bits = {0, 0};
  float scale = 0;
  __device__ __forceinline__ void Load(const int8_t* from) {
    bits = *reinterpret_cast<const uint2*>(from);
  }
  __device__ __forceinline__ void LoadScale(const float* from) { scale = *from; }
  __device__ __forceinline__ Eight Widen() const {
    const int8_t* bytes = reinterpret_cast<const int8_t*>(&bits);
    Eight out;
#pragma unroll
    for (int i = 0; i < 8; ++i) out.v[i] = static_cast<float>(bytes[i]) * scale;
    return out;
  }
};

/// Without a scale.
template <>
struct Packed<Fp8> {
  static constexpr int kAhead = 4;
  static constexpr bool kScaled = false;
  uint2 bits = {0, 0};
  __device__ __forceinline__ void Load(const Fp8* from) {
    bits = *reinterpret_cast<const uint2*>(from);
  }
  __device__ __forceinline__ void Store(Fp8* to) const { *reinterpret_cast<uint2*>(to) = bits; }
  static __device__ __forceinline__ Packed Of(const Eight& eight) {
    const float(&v)[8] = eight.v;
    Packed out;
    out.bits = {Fp8Four(v[0], v[1], v[2], v[3]), Fp8Four(v[4], v[5], v[6], v[7])};
    return out;
  }
  __device__ __forceinline__ Eight Widen() const { return WidenHalves(HalvesOfFp8(bits)); }
};

__device__ __forceinline__ Eight LoadEight(const float* from) {
  Packed<float> packed;
  packed.Load(from);
  return packed.Widen();
}

/// The second four of them only if asked for.
__device__ __forceinline__ Eight LoadFour(const float* from, bool eight) {
  const float4 low = *reinterpret_cast<const float4*>(from);
  float4 high = {0, 0, 0, 0};
  if (eight) high = *reinterpret_cast<const float4*>(from + 4);
  return {{low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}};
}

__device__ __forceinline__ void Store(__half* to, float v) { *to = __float2half(v); }
__device__ __forceinline__ void Store(float* to, float v) { *to = v; }
__device__ __forceinline__ void Store(Fp8* to, float v) { to->bits = Fp8Of(v, 0) & 0xff; }

/// Element d of a head after the rotation.
__device__ __forceinline__ float Turned(const float* head, int d, const float* angles, int pairs,
                                        bool interleaved) {
  if (angles == nullptr || d >= 2 * pairs) return head[d];
  const int pair = interleaved ? d / 2 : d % pairs;
  const bool second = interleaved ? d % 2 != 0 : d >= pairs;
  const float other = head[interleaved ? d ^ 1 : second ? d - pairs : d + pairs];
  const float cosine = angles[pair], sine = angles[pairs + pair];
  return second ? head[d] * cosine + other * sine : head[d] * cosine - other * sine;
}

/// What the rotation of elements d to d + 7 of a head needs. The loads are under way until the
/// values are used.
struct TurnedEight {
  Eight mine, other;  ///< other: of the pairs whose elements are apart
  Eight cosine, sine;
  float sign = 0;  ///< 0: turns not
  bool interleaved = false;

  __device__ __forceinline__ void Load(const float* head, int d, const float* angles, int pairs,
                                       bool neighbours) {
    mine = LoadEight(head + d);
    if (angles == nullptr || d >= 2 * pairs) return;
    const bool second = d >= pairs;
    const int pair = neighbours ? d / 2 : second ? d - pairs : d;
    sign = !neighbours && second ? 1.0f : -1.0f;
    interleaved = neighbours;
    // Eight neighbours are four pairs.
    if (!neighbours) other = LoadEight(head + (second ? pair : d + pairs));
    cosine = LoadFour(angles + pair, !neighbours);
    sine = LoadFour(angles + pairs + pair, !neighbours);
  }
  __device__ __forceinline__ Eight Get() const {
    Eight out = mine;
    if (sign == 0) return out;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float with =
          interleaved ? (i % 2 == 0 ? -mine.v[i + 1] : mine.v[i - 1]) : sign * other.v[i];
      out.v[i] = mine.v[i] * (interleaved ? cosine.v[i / 2] : cosine.v[i]) +
                 with * (interleaved ? sine.v[i / 2] : sine.v[i]);
    }
    return out;
  }
};

/// The online softmax of one team for one head of queries: running maximum, sum of weights and
/// weighted sum of values.
struct Running {
  float largest = kNone, weight = 0;
  float sums[8] = {};

  /// A larger maximum.
  __device__ __forceinline__ void Raise(float most) {
    const float shrink = __expf(largest - most);
    largest = most;
    weight *= shrink;
#pragma unroll
    for (int i = 0; i < 8; ++i) sums[i] *= shrink;
  }
  __device__ __forceinline__ void Add(float p, const Eight& value) {
    weight += p;
#pragma unroll
    for (int i = 0; i < 8; ++i) sums[i] = fmaf(p, value.v[i], sums[i]);
  }

  /// Merges this with the state of the lane `offset` away.
  __device__ __forceinline__ void Merge(int offset) {
    const float most = fmaxf(largest, __shfl_xor_sync(~0u, largest, offset));
    const float shrink = __expf(largest - most);
    largest = most;
    weight *= shrink;
    weight += __shfl_xor_sync(~0u, weight, offset);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      sums[i] *= shrink;
      sums[i] += __shfl_xor_sync(~0u, sums[i], offset);
    }
  }
};

}  // namespace oort::cuda::attention
