// SPDX-License-Identifier: MIT
// Numbers of eight bits with a point (e4m3, Micikevicius et al. 2022): what becomes of f32, and
// what becomes f16. For .cu files. GPUs from Ada on have instructions for both; before, CUDA's
// header computes the same.
#pragma once

#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>

namespace oort::cuda {

/// One of them; what kernels take for the type of an element of the cache.
struct Fp8 {
  uint8_t bits;
};

/// Two numbers, rounded to the nearest; those too large become the largest, 448.
__device__ __forceinline__ uint32_t Fp8Of(float low, float high) {
  return __nv_cvt_float2_to_fp8x2(make_float2(low, high), __NV_SATFINITE, __NV_E4M3);
}
__device__ __forceinline__ uint32_t Fp8Four(float a, float b, float c, float d) {
  return Fp8Of(a, b) | Fp8Of(c, d) << 16;
}

/// Eight of them as f16, which has all their values.
__device__ __forceinline__ uint4 HalvesOfFp8(uint2 eight) {
  const auto two = [](uint32_t bits) {
    const __half2_raw pair =
        __nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(bits), __NV_E4M3);
    return static_cast<uint32_t>(pair.x) | static_cast<uint32_t>(pair.y) << 16;
  };
  return {two(eight.x & 0xffff), two(eight.x >> 16), two(eight.y & 0xffff), two(eight.y >> 16)};
}

}  // namespace oort::cuda
