// SPDX-License-Identifier: MIT
// Device side of fast_activation.h, and pairs of 16-bit results in shared memory.
#pragma once

#include "cuda/epilogue.cuh"
#include "layers/convolution/cuda/fast_activation.h"

namespace oort::cuda {

/// NaN stays NaN.
__device__ inline float Limited(float x, float low, float high) {
  asm("max.NaN.f32 %0, %0, %1;" : "+f"(x) : "f"(low));
  asm("min.NaN.f32 %0, %0, %1;" : "+f"(x) : "f"(high));
  return x;
}

template <Activation curve>
__device__ float ActivateAs(float x, float low, float high) {
  if constexpr (curve == Activation::kSilu) x = __fdividef(x, 1.0f + __expf(-x));
  if constexpr (curve == Activation::kHardswish) x *= Limited(x + 3.0f, 0.0f, 6.0f) / 6.0f;
  return Limited(x, low, high);
}

__device__ inline float Activate(const FastActivation& activation, float x) {
  const float low = activation.low, high = activation.high;
  if (activation.curve == Activation::kNone) {
    return ActivateAs<Activation::kNone>(x, low, high);
  }
  return activation.curve == Activation::kSilu ? ActivateAs<Activation::kSilu>(x, low, high)
                                               : ActivateAs<Activation::kHardswish>(x, low, high);
}

/// Rounded.
__device__ inline uint32_t PairOf(float x, float y, __half*) {
  const __half2 pair = __floats2half2_rn(x, y);
  return *reinterpret_cast<const uint32_t*>(&pair);
}
__device__ inline uint32_t PairOf(float x, float y, __nv_bfloat16*) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(x, y);
  return *reinterpret_cast<const uint32_t*>(&pair);
}

/// Two 16-bit elements of shared memory in a word.
template <typename T>
struct ElementPair {
  T first, second;
};
template <typename T>
__device__ ElementPair<T> LoadPair(uint32_t from) {
  uint32_t word;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(from) : "memory");
  return *reinterpret_cast<const ElementPair<T>*>(&word);
}
template <typename T>
__device__ void StorePair(uint32_t to, float x, float y) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(PairOf(x, y, static_cast<T*>(nullptr)))
               : "memory");
}

}  // namespace oort::cuda
