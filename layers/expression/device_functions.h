// SPDX-License-Identifier: MIT
// The functions of register code on the GPU, over a few elements of one thread. For .cu files.
#pragma once

#include "layers/expression/device_registers.h"
#include "layers/expression/element_arithmetic.h"

namespace oort::expression {

template <typename T, typename Op, typename R, int kCount>
__device__ void Apply1(const R* a, const R*, const R*, R* y) {
  if constexpr (requires(T x) { Op::Call(x); }) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) Put(y[i], Op::Call(Get<T>(a[i])));
  }
}

template <typename T, typename Op, typename R, int kCount>
__device__ void Apply2(const R* a, const R* b, const R*, R* y) {
  if constexpr (requires(T x) { Op::Call(x, x); }) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) Put(y[i], Op::Call(Get<T>(a[i]), Get<T>(b[i])));
  }
}

template <typename T, typename Op, typename R, int kCount>
__device__ void Apply3(const R* a, const R* b, const R* c, R* y) {
  if constexpr (requires(T x) { Op::Call(x, x, x); }) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      Put(y[i], Op::Call(Get<T>(a[i]), Get<T>(b[i]), Get<T>(c[i])));
    }
  }
}

/// y = a ? b : c
template <typename R, int kCount>
__device__ void ApplyWhere(const R* a, const R* b, const R* c, R* y) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) y[i] = Get<Bool>(a[i]) ? b[i] : c[i];
}

/// y = function(a, b, c) for elements of type T; nothing where there is no such function.
template <typename T, typename R, int kCount>
__device__ void Call(Function function, const R* a, const R* b, const R* c, R* y) {
  switch (function) {
#define OORT_DEVICE_Host(name, arity)
#define OORT_DEVICE_Where(name, arity) \
  case Function::k##name:              \
    ApplyWhere<R, kCount>(a, b, c, y); \
    return;
#define OORT_DEVICE_Gpu(name, arity)                   \
  case Function::k##name:                              \
    Apply##arity<T, ops::name, R, kCount>(a, b, c, y); \
    return;
#define OORT_FUNCTION(id, name, arity, rule, scalar, vector, gpu, ...) OORT_DEVICE_##gpu(id, arity)
#include "parser/expression/functions.inc"
#undef OORT_DEVICE_Host
#undef OORT_DEVICE_Where
#undef OORT_DEVICE_Gpu
    default: return;
  }
}

}  // namespace oort::expression
