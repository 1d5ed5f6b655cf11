// SPDX-License-Identifier: MIT
// Elements of tensors by dtype, and sums over a block. For .cu files.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstddef>
#include <cstdint>

#include "oort/dtype.h"
#include "oort/error.h"

namespace oort::cuda {

/// What CUDA calls an element.
template <typename T>
struct ElementOf {
  using Type = T;
};
template <>
struct ElementOf<Half> {
  using Type = __half;
};
template <>
struct ElementOf<BFloat16> {
  using Type = __nv_bfloat16;
};

template <typename T>
struct ElementTag {
  using Type = T;
};

/// Calls visit(ElementTag<T>{}) with the type that kernels have for a float dtype.
template <typename Visitor>
void VisitFloat(DType dtype, Visitor&& visit) {
  switch (dtype) {
    case DType::kF32: return visit(ElementTag<float>{});
    case DType::kF64: return visit(ElementTag<double>{});
    case DType::kF16: return visit(ElementTag<__half>{});
    case DType::kBF16: return visit(ElementTag<__nv_bfloat16>{});
    default: break;
  }
  throw Error(ErrorCode::kUnsupported, "no kernel for dtype " + std::string(Name(dtype)));
}

/// In what sums over elements of type T are made.
template <typename T>
struct SumOf {
  using Type = float;
};
template <>
struct SumOf<double> {
  using Type = double;
};

__device__ inline float Widen(float value) { return value; }
__device__ inline double Widen(double value) { return value; }
__device__ inline float Widen(__half value) { return __half2float(value); }
__device__ inline float Widen(__nv_bfloat16 value) { return __bfloat162float(value); }

__device__ inline void Narrow(float& to, double value) { to = static_cast<float>(value); }
__device__ inline void Narrow(float& to, float value) { to = value; }
__device__ inline void Narrow(double& to, double value) { to = value; }
__device__ inline void Narrow(double& to, float value) { to = value; }
template <typename A>
__device__ void Narrow(__half& to, A value) {
  to = __float2half_rn(static_cast<float>(value));
}
template <typename A>
__device__ void Narrow(__nv_bfloat16& to, A value) {
  to = __float2bfloat16_rn(static_cast<float>(value));
}

/// Combines the values of all threads of a block of whole warps; all get the result. `shared` has
/// room for one value a warp and is free again after the call.
template <typename A, typename Combine>
__device__ A CombineBlock(A value, A* shared, Combine combine) {
  for (int offset = 16; offset > 0; offset /= 2) {
    value = combine(value, __shfl_xor_sync(0xffffffffu, value, offset));
  }
  const int warps = static_cast<int>(blockDim.x / 32);
  if (warps == 1) return value;
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
  __syncthreads();
  A total = shared[0];
  for (int i = 1; i < warps; ++i) total = combine(total, shared[i]);
  __syncthreads();
  return total;
}

/// Threads of a block, whole warps, that share `items`.
inline unsigned ThreadsFor(int64_t items, int64_t per_thread = 1, unsigned most = 256) {
  unsigned threads = 32;
  while (threads < most && static_cast<int64_t>(threads) * per_thread < items) threads *= 2;
  return threads;
}

}  // namespace oort::cuda
