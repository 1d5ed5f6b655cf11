// SPDX-License-Identifier: MIT
// Elements of real numbers whose dtype is known only when a kernel runs. For .cu files.
#pragma once

#include "cuda/elements.h"

namespace oort::cuda {

__device__ inline double RealAt(const void* x, int64_t i, DType dtype) {
  switch (dtype) {
    case DType::kF32: return static_cast<const float*>(x)[i];
    case DType::kF64: return static_cast<const double*>(x)[i];
    case DType::kF16: return Widen(static_cast<const __half*>(x)[i]);
    default: return Widen(static_cast<const __nv_bfloat16*>(x)[i]);
  }
}

__device__ inline int64_t IntegerAt(const void* x, int64_t i, DType dtype) {
  switch (dtype) {
    case DType::kI64: return static_cast<const int64_t*>(x)[i];
    case DType::kI32: return static_cast<const int32_t*>(x)[i];
    case DType::kI16: return static_cast<const int16_t*>(x)[i];
    case DType::kI8: return static_cast<const int8_t*>(x)[i];
    default: return static_cast<const uint8_t*>(x)[i];  // bool, too
  }
}

__device__ inline bool IsRealType(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF64 || dtype == DType::kF16 ||
         dtype == DType::kBF16;
}

template <typename A>
__device__ A NumberAt(const void* x, int64_t i, DType dtype) {
  return IsRealType(dtype) ? static_cast<A>(RealAt(x, i, dtype))
                           : static_cast<A>(IntegerAt(x, i, dtype));
}

template <typename A>
__device__ void StoreNumber(void* y, int64_t i, A value, DType dtype) {
  switch (dtype) {
    case DType::kF32: static_cast<float*>(y)[i] = static_cast<float>(value); break;
    case DType::kF64: static_cast<double*>(y)[i] = static_cast<double>(value); break;
    case DType::kF16: Narrow(static_cast<__half*>(y)[i], static_cast<double>(value)); break;
    case DType::kBF16: Narrow(static_cast<__nv_bfloat16*>(y)[i], static_cast<double>(value)); break;
    case DType::kI64: static_cast<int64_t*>(y)[i] = static_cast<int64_t>(value); break;
    case DType::kI32: static_cast<int32_t*>(y)[i] = static_cast<int32_t>(value); break;
    case DType::kI16: static_cast<int16_t*>(y)[i] = static_cast<int16_t>(value); break;
    case DType::kI8: static_cast<int8_t*>(y)[i] = static_cast<int8_t>(value); break;
    case DType::kBool: static_cast<uint8_t*>(y)[i] = value != A(0); break;
    default: static_cast<uint8_t*>(y)[i] = static_cast<uint8_t>(value); break;
  }
}

}  // namespace oort::cuda
