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
  [[maybe_unused]] constexpr bool kF32 = std::is_same_v<T, float>;
  switch (function) {
// f32 has its vector form, which is no null on any instruction set.
#define OORT_F32_None false
#define OORT_F32_Vector kF32
#define OORT_F32_Formula kF32
#define OORT_F32_F16 kF32
#define OORT_KERNEL_None(name, arity) nullptr  // rewritten into others before kernels are chosen
#define OORT_KERNEL_Where(name, arity) SelectWhereKernel<T>()
#define OORT_KERNEL_Element(name, arity) Kernel##arity<T, ops::name>()
#define OORT_KERNEL_Formula(name, arity) Kernel##arity<T, ops::name>()
#define OORT_KERNEL_ComplexFormula(name, arity) Kernel##arity<T, ops::name>()
#define OORT_FUNCTION(id, name, arity, rule, scalar, vector, ...)               \
  case Function::k##id:                                                         \
    if constexpr (!(OORT_F32_##vector)) return OORT_KERNEL_##scalar(id, arity); \
    return nullptr;
#include "parser/expression/functions.inc"
#undef OORT_F32_None
#undef OORT_F32_Vector
#undef OORT_F32_Formula
#undef OORT_F32_F16
#undef OORT_KERNEL_None
#undef OORT_KERNEL_Where
#undef OORT_KERNEL_Element
#undef OORT_KERNEL_Formula
#undef OORT_KERNEL_ComplexFormula
  }
  return nullptr;
}

}  // namespace oort::expression
