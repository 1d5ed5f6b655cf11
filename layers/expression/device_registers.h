// SPDX-License-Identifier: MIT
// Registers of one thread, and how elements get into them and out again. For .cu files.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "layers/expression/device_program.h"
#include "layers/expression/element_types.h"

namespace oort::expression {

/// A register that holds an element of any dtype.
struct WideRegister {
  uint64_t bits;
};

template <typename T>
__device__ T Get(WideRegister r) {
  if constexpr (std::is_same_v<T, Bool>) {
    return Bool(r.bits != 0);
  } else if constexpr (std::is_same_v<T, float>) {
    return __uint_as_float(static_cast<unsigned>(r.bits));
  } else if constexpr (std::is_same_v<T, double>) {
    return __longlong_as_double(static_cast<long long>(r.bits));
  } else {
    return static_cast<T>(r.bits);
  }
}
template <typename T>
__device__ T Get(float r) {
  if constexpr (std::is_same_v<T, Bool>) {
    return Bool(r != 0);
  } else {
    return static_cast<T>(r);
  }
}

__device__ inline void Put(WideRegister& r, float value) { r.bits = __float_as_uint(value); }
__device__ inline void Put(WideRegister& r, double value) {
  r.bits = static_cast<uint64_t>(__double_as_longlong(value));
}
__device__ inline void Put(WideRegister& r, int64_t value) {
  r.bits = static_cast<uint64_t>(value);
}
__device__ inline void Put(WideRegister& r, Bool value) { r.bits = value ? 1 : 0; }
__device__ inline void Put(float& r, float value) { r = value; }
__device__ inline void Put(float& r, Bool value) { r = value ? 1.0f : 0.0f; }

/// Integers are computed in 64 bits and cut to their own, which is what wrapping gives.
__device__ inline int64_t Wrapped(int64_t value, DType dtype) {
  switch (dtype) {
    case DType::kI32: return static_cast<int32_t>(value);
    case DType::kI16: return static_cast<int16_t>(value);
    case DType::kI8: return static_cast<int8_t>(value);
    case DType::kU8: return static_cast<uint8_t>(value);
    default: return value;
  }
}

__device__ inline float RoundTo(float value, DType half) {
  return half == DType::kF16 ? __half2float(__float2half_rn(value))
                             : __bfloat162float(__float2bfloat16_rn(value));
}

/// From and to what tensors store, by dtype. bf16 and f16 are f32 in registers.
__device__ inline int64_t LoadInteger(const std::byte* data, DType dtype, int64_t index) {
  switch (dtype) {
    case DType::kI32: return reinterpret_cast<const int32_t*>(data)[index];
    case DType::kI16: return reinterpret_cast<const int16_t*>(data)[index];
    case DType::kI8: return reinterpret_cast<const int8_t*>(data)[index];
    case DType::kU8: return reinterpret_cast<const uint8_t*>(data)[index];
    default: return reinterpret_cast<const int64_t*>(data)[index];
  }
}

__device__ inline float LoadFloat(const std::byte* data, DType dtype, int64_t index) {
  switch (dtype) {
    case DType::kF16: return __half2float(reinterpret_cast<const __half*>(data)[index]);
    case DType::kBF16: return __bfloat162float(reinterpret_cast<const __nv_bfloat16*>(data)[index]);
    default: return reinterpret_cast<const float*>(data)[index];
  }
}

template <typename R>
__device__ void Load(R& r, const std::byte* data, DType dtype, int64_t index) {
  if (dtype == DType::kBool) {
    Put(r, Bool(reinterpret_cast<const uint8_t*>(data)[index] != 0));
  } else if (dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16) {
    Put(r, LoadFloat(data, dtype, index));
  } else if constexpr (std::is_same_v<R, WideRegister>) {
    if (dtype == DType::kF64) {
      Put(r, reinterpret_cast<const double*>(data)[index]);
    } else {
      Put(r, LoadInteger(data, dtype, index));
    }
  }
}

template <typename R>
__device__ void Store(R r, std::byte* data, DType dtype, int64_t index) {
  switch (dtype) {
    case DType::kF32: reinterpret_cast<float*>(data)[index] = Get<float>(r); return;
    case DType::kF16:
      reinterpret_cast<__half*>(data)[index] = __float2half_rn(Get<float>(r));
      return;
    case DType::kBF16:
      reinterpret_cast<__nv_bfloat16*>(data)[index] = __float2bfloat16_rn(Get<float>(r));
      return;
    case DType::kBool: reinterpret_cast<uint8_t*>(data)[index] = Get<Bool>(r).bits; return;
    default: break;
  }
  if constexpr (std::is_same_v<R, WideRegister>) {
    const int64_t value = static_cast<int64_t>(r.bits);
    switch (dtype) {
      case DType::kF64:
      case DType::kI64: reinterpret_cast<int64_t*>(data)[index] = value; return;
      case DType::kI32:
        reinterpret_cast<int32_t*>(data)[index] = static_cast<int32_t>(value);
        return;
      case DType::kI16:
        reinterpret_cast<int16_t*>(data)[index] = static_cast<int16_t>(value);
        return;
      default: reinterpret_cast<uint8_t*>(data)[index] = static_cast<uint8_t>(value); return;
    }
  }
}

/// What a number is turned into on its way from one dtype to another.
__device__ inline void PutNumber(WideRegister& r, double value, DType to) {
  switch (to) {
    case DType::kF64: Put(r, value); return;
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16: Put(r, static_cast<float>(value)); return;
    case DType::kBool: Put(r, Bool(value != 0)); return;
    default:
      // Saturates at 64 bits; NaN is 0.
      Put(r, Wrapped(value != value ? 0 : __double2ll_rz(value), to));
      return;
  }
}

__device__ inline void Convert(WideRegister a, WideRegister& y, DType from, DType to) {
  switch (from) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16: PutNumber(y, Get<float>(a), to); return;
    case DType::kF64: PutNumber(y, Get<double>(a), to); return;
    default: break;
  }
  const int64_t value = static_cast<int64_t>(a.bits);
  switch (to) {
    case DType::kF64: Put(y, static_cast<double>(value)); return;
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16: Put(y, static_cast<float>(value)); return;
    case DType::kBool: Put(y, Bool(value != 0)); return;
    default: Put(y, Wrapped(value, to)); return;
  }
}
__device__ inline void Convert(float a, float& y, DType, DType to) {
  y = to == DType::kBool ? (a != 0 ? 1.0f : 0.0f) : a;
}

}  // namespace oort::expression
