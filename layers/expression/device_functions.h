// SPDX-License-Identifier: MIT
// The functions of register code on the GPU, over a few elements of one thread. For .cu files.
#pragma once

#include "layers/expression/device_registers.h"
#include "layers/expression/element_arithmetic.h"

namespace oort::expression {

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

}  // namespace oort::expression
