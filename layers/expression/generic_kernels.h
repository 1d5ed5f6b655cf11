// SPDX-License-Identifier: MIT
// Kernels in portable code. Included by one file for each kind of type, to keep compilation short.
#pragma once

#include <cstring>

#include "layers/expression/element_arithmetic.h"
#include "layers/expression/element_special.h"
#include "layers/expression/kernels.h"

namespace oort::expression {

template <typename T, typename Op>
Kernel Kernel1() {
  if constexpr (requires(T x) { Op::Call(x); }) {
    return [](const void* const* args, void* out, int64_t count) {
      const T* x = static_cast<const T*>(args[0]);
      auto* y = static_cast<decltype(Op::Call(T()))*>(out);
      for (int64_t i = 0; i < count; ++i) y[i] = Op::Call(x[i]);
    };
  } else {
    return nullptr;
  }
}

template <typename T, typename Op>
Kernel Kernel2() {
  if constexpr (requires(T a) { Op::Call(a, a); }) {
    return [](const void* const* args, void* out, int64_t count) {
      const T* a = static_cast<const T*>(args[0]);
      const T* b = static_cast<const T*>(args[1]);
      auto* y = static_cast<decltype(Op::Call(T(), T()))*>(out);
      for (int64_t i = 0; i < count; ++i) y[i] = Op::Call(a[i], b[i]);
    };
  } else {
    return nullptr;
  }
}

template <typename T, typename Op>
Kernel Kernel3() {
  if constexpr (requires(T a) { Op::Call(a, a, a); }) {
    return [](const void* const* args, void* out, int64_t count) {
      const T* a = static_cast<const T*>(args[0]);
      const T* b = static_cast<const T*>(args[1]);
      const T* c = static_cast<const T*>(args[2]);
      T* y = static_cast<T*>(out);
      for (int64_t i = 0; i < count; ++i) y[i] = Op::Call(a[i], b[i], c[i]);
    };
  } else {
    return nullptr;
  }
}

/// Chooses with masks rather than branches, so that it is vectorized. U has the size of T.
template <typename T, typename U>
void WhereKernel(const void* const* args, void* out, int64_t count) {
  const Bool* condition = static_cast<const Bool*>(args[0]);
  const T* a = static_cast<const T*>(args[1]);
  const T* b = static_cast<const T*>(args[2]);
  T* y = static_cast<T*>(out);
  for (int64_t i = 0; i < count; ++i) {
    U if_true, if_false;
    std::memcpy(&if_true, a + i, sizeof(U));
    std::memcpy(&if_false, b + i, sizeof(U));
    const U mask = static_cast<U>(U(0) - U(condition[i].bits != 0));
    const U chosen = static_cast<U>((if_true & mask) | (if_false & static_cast<U>(~mask)));
    std::memcpy(static_cast<void*>(y + i), &chosen, sizeof(U));
  }
}

template <typename T>
Kernel SelectWhereKernel() {
  if constexpr (sizeof(T) == 1) {
    return &WhereKernel<T, uint8_t>;
  } else if constexpr (sizeof(T) == 2) {
    return &WhereKernel<T, uint16_t>;
  } else if constexpr (sizeof(T) == 4) {
    return &WhereKernel<T, uint32_t>;
  } else if constexpr (sizeof(T) == 8) {
    return &WhereKernel<T, uint64_t>;
  } else {
    return [](const void* const* args, void* out, int64_t count) {
      const Bool* condition = static_cast<const Bool*>(args[0]);
      for (int64_t i = 0; i < count; ++i) {
        static_cast<T*>(out)[i] = static_cast<const T*>(args[condition[i] ? 1 : 2])[i];
      }
    };
  }
}

template <typename T>
Kernel GenericKernel(Function function) {
  switch (function) {
#define OORT_CASE(arity, name) \
  case Function::k##name: return Kernel##arity<T, ops::name>();
    OORT_CASE(1, Abs)
    OORT_CASE(1, Acos)
    OORT_CASE(1, Acosh)
    OORT_CASE(1, Asin)
    OORT_CASE(1, Asinh)
    OORT_CASE(1, Atan)
    OORT_CASE(1, Atanh)
    OORT_CASE(1, BitwiseNot)
    OORT_CASE(1, Ceil)
    OORT_CASE(1, Cos)
    OORT_CASE(1, Cosh)
    OORT_CASE(1, Erf)
    OORT_CASE(1, Erfc)
    OORT_CASE(1, Exp)
    OORT_CASE(1, Exp2)
    OORT_CASE(1, Expm1)
    OORT_CASE(1, Floor)
    OORT_CASE(1, Gelu)
    OORT_CASE(1, GeluTanh)
    OORT_CASE(1, Hardsigmoid)
    OORT_CASE(1, Hardswish)
    OORT_CASE(1, Isfinite)
    OORT_CASE(1, Isinf)
    OORT_CASE(1, Isnan)
    OORT_CASE(1, Lgamma)
    OORT_CASE(1, Log)
    OORT_CASE(1, Log10)
    OORT_CASE(1, Log1p)
    OORT_CASE(1, Log2)
    OORT_CASE(1, Logsigmoid)
    OORT_CASE(1, Mish)
    OORT_CASE(1, Neg)
    OORT_CASE(1, Reciprocal)
    OORT_CASE(1, Relu)
    OORT_CASE(1, Round)
    OORT_CASE(1, Rsqrt)
    OORT_CASE(1, Selu)
    OORT_CASE(1, Sigmoid)
    OORT_CASE(1, Sign)
    OORT_CASE(1, Silu)
    OORT_CASE(1, Sin)
    OORT_CASE(1, Sinh)
    OORT_CASE(1, Softsign)
    OORT_CASE(1, Sqrt)
    OORT_CASE(1, Tan)
    OORT_CASE(1, Tanh)
    OORT_CASE(1, Tanhshrink)
    OORT_CASE(1, Trunc)
    OORT_CASE(2, Add)
    OORT_CASE(2, And)
    OORT_CASE(2, Atan2)
    OORT_CASE(2, Celu)
    OORT_CASE(2, Div)
    OORT_CASE(2, Elu)
    OORT_CASE(2, Eq)
    OORT_CASE(2, FloorDivide)
    OORT_CASE(2, Fmod)
    OORT_CASE(2, Ge)
    OORT_CASE(2, Gt)
    OORT_CASE(2, Hardshrink)
    OORT_CASE(2, Le)
    OORT_CASE(2, LeakyRelu)
    OORT_CASE(2, Logaddexp)
    OORT_CASE(2, Lshift)
    OORT_CASE(2, Lt)
    OORT_CASE(2, Maximum)
    OORT_CASE(2, Minimum)
    OORT_CASE(2, Mul)
    OORT_CASE(2, Ne)
    OORT_CASE(2, Or)
    OORT_CASE(2, Pow)
    OORT_CASE(2, Remainder)
    OORT_CASE(2, Rshift)
    OORT_CASE(2, Softshrink)
    OORT_CASE(2, Sub)
    OORT_CASE(2, Xor)
    OORT_CASE(1, Digamma)
    OORT_CASE(1, Erfcx)
    OORT_CASE(1, Erfinv)
    OORT_CASE(1, I0)
    OORT_CASE(1, I0e)
    OORT_CASE(1, I1)
    OORT_CASE(1, I1e)
    OORT_CASE(1, LogNdtr)
    OORT_CASE(1, Ndtri)
    OORT_CASE(1, Signbit)
    OORT_CASE(1, Sinc)
    OORT_CASE(2, Copysign)
    OORT_CASE(2, Gcd)
    OORT_CASE(2, Hypot)
    OORT_CASE(2, Igamma)
    OORT_CASE(2, Igammac)
    OORT_CASE(2, Lcm)
    OORT_CASE(2, Nextafter)
    OORT_CASE(2, Zeta)
    OORT_CASE(3, Clamp)
    OORT_CASE(3, Softplus)
    OORT_CASE(3, Threshold)
#undef OORT_CASE
    case Function::kReal: return Kernel1<T, ops::RealPart>();
    case Function::kImag: return Kernel1<T, ops::ImagPart>();
    case Function::kComplex: return Kernel2<T, ops::MakeComplex>();
    case Function::kWhere: return SelectWhereKernel<T>();
    default: return nullptr;  // rewritten into others before kernels are chosen
  }
}

}  // namespace oort::expression
