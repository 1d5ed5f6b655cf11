// SPDX-License-Identifier: MIT
// Tables of kernels over f32 and over f16; see cpu/lanes.h.
#pragma once

#include <type_traits>

#include "cpu/kernels.h"
#include "oort/dtype.h"
#include "oort/error.h"

// The namespace of the kernels over f16, where the build has any.
#if defined(OORT_NO_F16_UNIT)
#elif defined(__aarch64__)
#define OORT_F16_UNIT neon_f16
#elif defined(__x86_64__)
#define OORT_F16_UNIT avx512_f16
#endif

namespace oort {

/// Whether kernels over f16 run on this processor with this instruction set.
bool HasF16Arithmetic(Isa isa);
/// Throws kUnsupported unless there is f16 arithmetic, and says what else there is.
void CheckF16Arithmetic(Isa isa);

/// What a build for other processors has in the place of a table of such kernels.
template <typename Table>
[[noreturn]] const Table& NoF16Kernels() {
  throw Error(ErrorCode::kUnsupported, "this build has no kernels for f16");
}

}  // namespace oort

#define OORT_DECLARE_LANES_GETTER(table, isa) \
  namespace isa {                             \
  const table##Of<float>& table##Get();       \
  }
#if defined(OORT_F16_UNIT)
#define OORT_DECLARE_F16_GETTER(table) \
  namespace OORT_F16_UNIT {            \
  const table##Of<Half>& table##Get(); \
  }
#define OORT_F16_GETTER(table) OORT_F16_UNIT::table##Get()
#else
#define OORT_DECLARE_F16_GETTER(table)
#define OORT_F16_GETTER(table) NoF16Kernels<table##Of<Half>>()
#endif

/// Use inside namespace oort.
#define OORT_DECLARE_LANES_KERNELS(table)             \
  OORT_FOR_EACH_ISA(OORT_DECLARE_LANES_GETTER, table) \
  OORT_DECLARE_F16_GETTER(table)                      \
  template <typename T>                               \
  const table##Of<T>& table##For(Isa selected) {      \
    if constexpr (std::is_same_v<T, Half>) {          \
      CheckF16Arithmetic(selected);                   \
      return OORT_F16_GETTER(table);                  \
    } else {                                          \
      switch (selected) { OORT_ISA_CASES(table) }     \
    }                                                 \
  }

/// Use at global scope, at the end of a .lanes.cpp.
#define OORT_DEFINE_LANES_KERNELS(table, ...)                 \
  namespace oort::OORT_ISA {                                  \
  const table##Of<Element>& table##Get() {                    \
    static constexpr table##Of<Element> kTable = __VA_ARGS__; \
    return kTable;                                            \
  }                                                           \
  }
