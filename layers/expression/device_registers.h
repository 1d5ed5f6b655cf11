// SPDX-License-Identifier: MIT
// What one instruction does to the registers of one thread. For .cu files.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "layers/expression/device_program.h"
#include "layers/expression/element_arithmetic.h"

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

template <typename T, typename Op, typename R, int kCount>
__device__ bool Apply1(const R* a, R* y) {
  if constexpr (requires(T x) { Op::Call(x); }) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) Put(y[i], Op::Call(Get<T>(a[i])));
    return true;
  } else {
    return false;
  }
}

template <typename T, typename Op, typename R, int kCount>
__device__ bool Apply2(const R* a, const R* b, R* y) {
  if constexpr (requires(T x) { Op::Call(x, x); }) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) Put(y[i], Op::Call(Get<T>(a[i]), Get<T>(b[i])));
    return true;
  } else {
    return false;
  }
}

template <typename T, typename Op, typename R, int kCount>
__device__ bool Apply3(const R* a, const R* b, const R* c, R* y) {
  if constexpr (requires(T x) { Op::Call(x, x, x); }) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      Put(y[i], Op::Call(Get<T>(a[i]), Get<T>(b[i]), Get<T>(c[i])));
    }
    return true;
  } else {
    return false;
  }
}

/// Formulas that are written once for vectors, for f32 and for f64.
#define OORT_LANE1(name)                   \
  struct name##Lane {                      \
    template <Real T>                      \
    __device__ static T Call(T x) {        \
      return formulas::name(Lane<T>(x)).v; \
    }                                      \
  };
#define OORT_LANE2(name)                               \
  struct name##Lane {                                  \
    template <Real T>                                  \
    __device__ static T Call(T a, T b) {               \
      return formulas::name(Lane<T>(a), Lane<T>(b)).v; \
    }                                                  \
  };
OORT_LANE1(Gelu)
OORT_LANE1(GeluTanh)
OORT_LANE1(Hardsigmoid)
OORT_LANE1(Hardswish)
OORT_LANE1(Logsigmoid)
OORT_LANE1(Mish)
OORT_LANE1(Selu)
OORT_LANE1(Silu)
OORT_LANE2(Celu)
OORT_LANE2(Elu)
OORT_LANE2(Hardshrink)
OORT_LANE2(LeakyRelu)
OORT_LANE2(Logaddexp)
OORT_LANE2(Softshrink)
struct SoftplusLane {
  template <Real T>
  __device__ static T Call(T x, T beta, T threshold) {
    return formulas::Softplus(Lane<T>(x), Lane<T>(beta), Lane<T>(threshold)).v;
  }
};
#undef OORT_LANE1
#undef OORT_LANE2

/// y = function(a, b, c) for elements of type T; nothing where there is no such function.
template <typename T, typename R, int kCount>
__device__ void Call(Function function, const R* a, const R* b, const R* c, R* y) {
  switch (function) {
#define OORT_CASE1(name)                   \
  case Function::k##name:                  \
    Apply1<T, ops::name, R, kCount>(a, y); \
    return;
#define OORT_CASE2(name)                      \
  case Function::k##name:                     \
    Apply2<T, ops::name, R, kCount>(a, b, y); \
    return;
#define OORT_CASE3(name)                         \
  case Function::k##name:                        \
    Apply3<T, ops::name, R, kCount>(a, b, c, y); \
    return;
#define OORT_LANE1(name)                    \
  case Function::k##name:                   \
    Apply1<T, name##Lane, R, kCount>(a, y); \
    return;
#define OORT_LANE2(name) \
  case Function::k##name: Apply2<T, name##Lane, R, kCount>(a, b, y); return;
    OORT_CASE1(Abs)
    OORT_CASE1(Acos)
    OORT_CASE1(Acosh)
    OORT_CASE1(Asin)
    OORT_CASE1(Asinh)
    OORT_CASE1(Atan)
    OORT_CASE1(Atanh)
    OORT_CASE1(BitwiseNot)
    OORT_CASE1(Ceil)
    OORT_CASE1(Cos)
    OORT_CASE1(Cosh)
    OORT_CASE1(Erf)
    OORT_CASE1(Erfc)
    OORT_CASE1(Exp)
    OORT_CASE1(Exp2)
    OORT_CASE1(Expm1)
    OORT_CASE1(Floor)
    OORT_LANE1(Gelu)
    OORT_LANE1(GeluTanh)
    OORT_LANE1(Hardsigmoid)
    OORT_LANE1(Hardswish)
    OORT_CASE1(Isfinite)
    OORT_CASE1(Isinf)
    OORT_CASE1(Isnan)
    OORT_CASE1(Lgamma)
    OORT_CASE1(Log)
    OORT_CASE1(Log10)
    OORT_CASE1(Log1p)
    OORT_CASE1(Log2)
    OORT_LANE1(Logsigmoid)
    OORT_LANE1(Mish)
    OORT_CASE1(Neg)
    OORT_CASE1(Reciprocal)
    OORT_CASE1(Relu)
    OORT_CASE1(Round)
    OORT_CASE1(Rsqrt)
    OORT_LANE1(Selu)
    OORT_CASE1(Sigmoid)
    OORT_CASE1(Sign)
    OORT_LANE1(Silu)
    OORT_CASE1(Sin)
    OORT_CASE1(Sinh)
    OORT_CASE1(Softsign)
    OORT_CASE1(Sqrt)
    OORT_CASE1(Tan)
    OORT_CASE1(Tanh)
    OORT_CASE1(Tanhshrink)
    OORT_CASE1(Trunc)
    OORT_CASE2(Add)
    OORT_CASE2(And)
    OORT_CASE2(Atan2)
    OORT_LANE2(Celu)
    OORT_CASE2(Div)
    OORT_LANE2(Elu)
    OORT_CASE2(Eq)
    OORT_CASE2(FloorDivide)
    OORT_CASE2(Fmod)
    OORT_CASE2(Ge)
    OORT_CASE2(Gt)
    OORT_LANE2(Hardshrink)
    OORT_CASE2(Le)
    OORT_LANE2(LeakyRelu)
    OORT_LANE2(Logaddexp)
    OORT_CASE2(Lshift)
    OORT_CASE2(Lt)
    OORT_CASE2(Maximum)
    OORT_CASE2(Minimum)
    OORT_CASE2(Mul)
    OORT_CASE2(Ne)
    OORT_CASE2(Or)
    OORT_CASE2(Pow)
    OORT_CASE2(Remainder)
    OORT_CASE2(Rshift)
    OORT_LANE2(Softshrink)
    OORT_CASE2(Sub)
    OORT_CASE2(Xor)
    OORT_CASE3(Clamp)
    OORT_CASE3(Threshold)
#undef OORT_CASE1
#undef OORT_CASE2
#undef OORT_CASE3
#undef OORT_LANE1
#undef OORT_LANE2
    case Function::kSoftplus: Apply3<T, SoftplusLane, R, kCount>(a, b, c, y); return;
    case Function::kWhere:
#pragma unroll
      for (int i = 0; i < kCount; ++i) y[i] = Get<Bool>(a[i]) ? b[i] : c[i];
      return;
    default: return;
  }
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
