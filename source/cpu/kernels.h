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

// The sets that this build has (OORT_KERNELS in cmake/OortSimd.cmake). The first of them stands for
// all that the build has not.
#if defined(OORT_NO_SCALAR)
#define OORT_IF_SCALAR(...)
#else
#define OORT_IF_SCALAR(...) __VA_ARGS__
#define OORT_FIRST_ISA scalar
#endif
#if defined(__aarch64__)
#define OORT_IF_NEON(...) __VA_ARGS__
#if !defined(OORT_FIRST_ISA)
#define OORT_FIRST_ISA neon
#endif
#else
#define OORT_IF_NEON(...)
#endif
#if defined(__x86_64__) && !defined(OORT_NO_AVX2)
#define OORT_IF_AVX2(...) __VA_ARGS__
#if !defined(OORT_FIRST_ISA)
#define OORT_FIRST_ISA avx2
#endif
#else
#define OORT_IF_AVX2(...)
#endif
#if defined(__x86_64__) && !defined(OORT_NO_AVX512)
#define OORT_IF_AVX512(...) __VA_ARGS__
#if !defined(OORT_FIRST_ISA)
#define OORT_FIRST_ISA avx512
#endif
#else
#define OORT_IF_AVX512(...)
#endif

#define OORT_FOR_EACH_ISA(apply, table) \
  OORT_IF_SCALAR(apply(table, scalar))  \
  OORT_IF_NEON(apply(table, neon))      \
  OORT_IF_AVX2(apply(table, avx2)) OORT_IF_AVX512(apply(table, avx512))
#define OORT_ISA_CASES(table)                                      \
  OORT_IF_NEON(case Isa::kNeon : return neon::table##Get();)       \
  OORT_IF_AVX2(case Isa::kAvx2 : return avx2::table##Get();)       \
  OORT_IF_AVX512(case Isa::kAvx512 : return avx512::table##Get();) \
  default:                                                         \
    return OORT_FIRST_ISA::table##Get();

#define OORT_DECLARE_KERNEL_GETTER(table, isa) \
  namespace isa {                              \
  const table& table##Get();                   \
  }

/// Use inside namespace oort.
#define OORT_DECLARE_KERNELS(table)                    \
  OORT_FOR_EACH_ISA(OORT_DECLARE_KERNEL_GETTER, table) \
  inline const table& table##For(Isa selected) {       \
    switch (selected) { OORT_ISA_CASES(table) }        \
  }

/// Use at global scope, at the end of a .simd.cpp.
#define OORT_DEFINE_KERNELS(table, ...)          \
  namespace oort::OORT_ISA {                     \
  const table& table##Get() {                    \
    static constexpr table kTable = __VA_ARGS__; \
    return kTable;                               \
  }                                              \
  }
