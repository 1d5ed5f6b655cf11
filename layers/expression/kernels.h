// SPDX-License-Identifier: MIT
// The arithmetic of one function on one block of elements.
#pragma once

#include <array>
#include <cstdint>

#include "cpu/lanes_kernels.h"
#include "oort/dtype.h"
#include "parser/expression/function.h"

namespace oort::expression {

/// out[i] = f(args[0][i], …). `out` may be one of `args` where the element types are the same.
using Kernel = void (*)(const void* const* args, void* out, int64_t count);

/// What a kernel does, for who has kernels of his own: `function` of elements of dtype `from`; or
/// from one dtype to another; or rounded to `to` and kept as f32.
struct Opcode {
  enum Kind : uint8_t { kCall, kConvert, kRound };
  Kind kind = kCall;
  Function function{};
  DType from = DType::kNull, to = DType::kNull;
};

/// f16 and bf16 are computed in f32 and rounded after each operation, as torch does; other dtypes
/// are computed as they are.
DType ComputeDType(DType dtype);

/// The kernel for arguments of this compute dtype; null where torch has no such function either.
/// Comparisons write bools and abs of complex numbers writes real ones; otherwise the result has
/// the dtype of the arguments.
Kernel FindKernel(Function function, DType dtype, Isa isa);

/// From one dtype, as a tensor stores it, to another; null where there is no such conversion.
Kernel FindConversion(DType from, DType to);

/// Rounds f32 to the nearest f16 or bf16, and keeps it as f32.
Kernel FindRounding(DType half);

/// Kernels in portable code, by the C++ type of the elements.
template <typename T>
Kernel GenericKernel(Function function);

/// The same where args[which] is one element that stands for all; null where there is none.
Kernel FindRepeatedKernel(Function function, size_t which, DType dtype, Isa isa);

/// f32 with vector instructions; null where the portable code serves.
struct ExpressionKernels {
  std::array<Kernel, kFunctionCount> functions{};
  /// The same where the first or the second of two arguments is one element that stands for all.
  std::array<std::array<Kernel, kFunctionCount>, 2> repeated{};
};

/// Functions of f16 in f16, whose results are those in f32 rounded; null where they would not be.
struct HalfExpressionKernels {
  std::array<Kernel, kFunctionCount> functions{};
  Kernel widen = nullptr, narrow = nullptr;  ///< f16 to f32, and back
};
/// Null where there is none, or the processor has no such arithmetic.
Kernel FindHalfKernel(Function function, Isa isa);

}  // namespace oort::expression

namespace oort {
using expression::ExpressionKernels;
OORT_DECLARE_KERNELS(ExpressionKernels)
#if defined(OORT_F16_UNIT)
namespace OORT_F16_UNIT {
const expression::HalfExpressionKernels& HalfExpressionKernelsGet();
}
#endif
}  // namespace oort
