// SPDX-License-Identifier: MIT
// Device side of fast_activation.h, and pairs of 16-bit results in shared memory.
#pragma once

#include "cuda/conv/epilogue.cuh"
#include "cuda/conv/fast_activation.h"

namespace oort::cuda {

__device__ inline float Activate(const FastActivation& activation, float x) {
  if (activation.curve == FastActivation::kSilu) x = x / (1.0f + __expf(-x));
  if (activation.curve == FastActivation::kHardswish) x *= Clamped(x + 3.0f, 0.0f, 6.0f) / 6.0f;
  return Clamped(x, activation.low, activation.high);
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
  const ElementPair<T> pair = {FromFloat<T>(x), FromFloat<T>(y)};
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(*reinterpret_cast<const uint32_t*>(&pair))
               : "memory");
}

}  // namespace oort::cuda
