// SPDX-License-Identifier: MIT
// Tables of kernels that are compiled once for each instruction set.
//
// A header declares a table of function pointers and how to get one:
//     struct ReluKernels { void (*relu)(const float* x, float* y, int64_t count); };
//     OORT_DECLARE_KERNELS(ReluKernels)      // declares: const ReluKernels& ReluKernelsFor(Isa)
// A file `something.simd.cpp` holds the code, written over the vector type of cpu/vec.h:
//     namespace oort::OORT_ISA { namespace { void Relu(…) { … } } }
//     OORT_DEFINE_KERNELS(ReluKernels, {.relu = OORT_ISA::Relu})
// A layer picks its table once, in its constructor: kernels_(ReluKernelsFor(init.isa())).
// Everything in a .simd.cpp stays inside namespace oort::OORT_ISA: an inline function shared
// between instruction sets would be merged by the linker, and the wrong copy might survive.
#pragma once

#include "oort/layer.h"

#if defined(__aarch64__)
#define OORT_FOR_EACH_ISA(apply, table) apply(table, scalar) apply(table, neon)
#define OORT_ISA_CASES(table) \
  case Isa::kNeon:            \
    return neon::table##Get();
#elif defined(__x86_64__) && defined(OORT_NO_AVX512)
#define OORT_FOR_EACH_ISA(apply, table) apply(table, scalar) apply(table, avx2)
#define OORT_ISA_CASES(table) \
  case Isa::kAvx2:            \
    return avx2::table##Get();
#elif defined(__x86_64__)
#define OORT_FOR_EACH_ISA(apply, table) apply(table, scalar) apply(table, avx2) apply(table, avx512)
#define OORT_ISA_CASES(table)                 \
  case Isa::kAvx2: return avx2::table##Get(); \
  case Isa::kAvx512:                          \
    return avx512::table##Get();
#else
#define OORT_FOR_EACH_ISA(apply, table) apply(table, scalar)
#define OORT_ISA_CASES(table)
#endif

#define OORT_DECLARE_KERNEL_GETTER(table, isa) \
  namespace isa {                              \
  const table& table##Get();                   \
  }

/// Use inside namespace oort.
#define OORT_DECLARE_KERNELS(table)                    \
  OORT_FOR_EACH_ISA(OORT_DECLARE_KERNEL_GETTER, table) \
  inline const table& table##For(Isa selected) {       \
    switch (selected) {                                \
      OORT_ISA_CASES(table)                            \
      default: return scalar::table##Get();            \
    }                                                  \
  }

/// Use at global scope, at the end of a .simd.cpp.
#define OORT_DEFINE_KERNELS(table, ...)          \
  namespace oort::OORT_ISA {                     \
  const table& table##Get() {                    \
    static constexpr table kTable = __VA_ARGS__; \
    return kTable;                               \
  }                                              \
  }
