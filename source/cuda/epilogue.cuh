// SPDX-License-Identifier: MIT
// Device side of epilogue.h, and conversions between elements and f32.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "cuda/epilogue.h"
#include "cuda/kernel_tools.h"

namespace oort::cuda {

/// NaN stays NaN, as in torch.
__device__ inline float Clamped(float x, float low, float high) {
  return x < low ? low : (x > high ? high : x);
}

__device__ inline float Gelu(float x) { return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f)); }

__device__ __noinline__ inline float ActivateSlow(Activation kind, float a, float b, float x) {
  switch (kind) {
    case Activation::kClamp: return Clamped(x, a, b);
    case Activation::kSilu: return x / (1.0f + expf(-x));
    case Activation::kHardswish: return x * Clamped(x + 3.0f, 0.0f, 6.0f) / 6.0f;
    case Activation::kHardsigmoid: return Clamped(x + 3.0f, 0.0f, 6.0f) / 6.0f;
    case Activation::kSigmoid: return 1.0f / (1.0f + expf(-x));
    case Activation::kTanh: return tanhf(x);
    case Activation::kGelu: return Gelu(x);
    case Activation::kGeluTanh:
      return 0.5f * x * (1.0f + tanhf(0.79788456080286536f * (x + 0.044715f * x * x * x)));
    case Activation::kLeakyRelu: return x < 0.0f ? a * x : x;
    case Activation::kElu: return x < 0.0f ? a * expm1f(x) : x;
    case Activation::kMish: return x * tanhf(x > 20.0f ? x : log1pf(expf(x)));
    default: return x;
  }
}

__device__ inline float Activate(Activation kind, float a, float b, float x) {
  if (kind == Activation::kNone) return x;
  if (kind == Activation::kRelu) return x < 0.0f ? 0.0f : x;
  return ActivateSlow(kind, a, b, x);
}

__device__ inline float ToFloat(float x) { return x; }
__device__ inline float ToFloat(__half x) { return __half2float(x); }
__device__ inline float ToFloat(__nv_bfloat16 x) { return __bfloat162float(x); }
template <typename T>
__device__ T FromFloat(float x);
template <>
__device__ inline float FromFloat(float x) {
  return x;
}
template <>
__device__ inline __half FromFloat(float x) {
  return __float2half_rn(x);
}
template <>
__device__ inline __nv_bfloat16 FromFloat(float x) {
  return __float2bfloat16_rn(x);
}

/// `count` neighbouring elements, moved 16 bytes at a time.
template <typename T, int count>
struct alignas(16) Elements {
  static_assert(count * sizeof(T) % 16 == 0);
  T at[count];
};
template <typename T, int count>
__device__ Elements<T, count> LoadElements(const T* from) {
  Elements<T, count> elements;
  constexpr int kPieces = count * static_cast<int>(sizeof(T)) / 16;
  for (int i = 0; i < kPieces; ++i) {
    reinterpret_cast<uint4*>(elements.at)[i] = reinterpret_cast<const uint4*>(from)[i];
  }
  return elements;
}
template <typename T, int count>
__device__ void StoreElements(T* to, const Elements<T, count>& elements) {
  constexpr int kPieces = count * static_cast<int>(sizeof(T)) / 16;
  for (int i = 0; i < kPieces; ++i) {
    reinterpret_cast<uint4*>(to)[i] = reinterpret_cast<const uint4*>(elements.at)[i];
  }
}

/// The same as f32; one element need not be aligned.
template <typename T, int count>
__device__ void LoadFloats(float (&values)[count], const T* from) {
  if constexpr (count == 1) {
    values[0] = ToFloat(*from);
  } else {
    const Elements<T, count> piece = LoadElements<T, count>(from);
#pragma unroll
    for (int i = 0; i < count; ++i) values[i] = ToFloat(piece.at[i]);
  }
}
template <typename T, int count>
__device__ void StoreFloats(T* to, const float (&values)[count]) {
  if constexpr (count == 1) {
    *to = FromFloat<T>(values[0]);
  } else {
    Elements<T, count> piece;
#pragma unroll
    for (int i = 0; i < count; ++i) piece.at[i] = FromFloat<T>(values[i]);
    StoreElements(to, piece);
  }
}

}  // namespace oort::cuda
