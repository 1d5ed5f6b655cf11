// SPDX-License-Identifier: MIT
#include "layers/expression/kernels.h"

#include "layers/expression/element_functions.h"

namespace oort::expression {
namespace {

/// Conversions read and write bools as bytes that need not be 0 or 1.
template <typename T>
using Stored = std::conditional_t<std::is_same_v<T, bool>, Bool, T>;

template <typename To, typename From>
To Convert(From value) {
  if constexpr (std::is_same_v<From, Bool>) {
    return ConvertElement<To>(static_cast<uint8_t>(value ? 1 : 0));
  } else {
    return ConvertElement<To>(value);
  }
}

template <typename From, typename To>
void ConversionKernel(const void* const* args, void* out, int64_t count) {
  const auto* x = static_cast<const Stored<From>*>(args[0]);
  auto* y = static_cast<Stored<To>*>(out);
  for (int64_t i = 0; i < count; ++i) y[i] = Convert<To>(x[i]);
}

template <typename Half>
void RoundingKernel(const void* const* args, void* out, int64_t count) {
  const float* x = static_cast<const float*>(args[0]);
  float* y = static_cast<float*>(out);
  for (int64_t i = 0; i < count; ++i) y[i] = static_cast<float>(Half(x[i]));
}

}  // namespace

void ThrowDivisionByZero() {
  throw Error(ErrorCode::kInvalidArgument, "an integer is divided by zero");
}

DType ComputeDType(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kBF16 ? DType::kF32 : dtype;
}

Kernel FindKernel(Function function, DType dtype, Isa isa) {
  switch (dtype) {
    case DType::kF32:
      if (Kernel fast = ExpressionKernelsFor(isa).functions[static_cast<size_t>(function)]) {
        return fast;
      }
      return GenericKernel<float>(function);
    case DType::kF64: return GenericKernel<double>(function);
    case DType::kI8: return GenericKernel<int8_t>(function);
    case DType::kU8: return GenericKernel<uint8_t>(function);
    case DType::kI16: return GenericKernel<int16_t>(function);
    case DType::kI32: return GenericKernel<int32_t>(function);
    case DType::kI64: return GenericKernel<int64_t>(function);
    case DType::kBool: return GenericKernel<Bool>(function);
    case DType::kC64: return GenericKernel<std::complex<float>>(function);
    case DType::kC128: return GenericKernel<std::complex<double>>(function);
    default: return nullptr;
  }
}

Kernel FindConversion(DType from, DType to) {
  if (from == DType::kC32 || to == DType::kC32) return nullptr;
  if (from == DType::kNull || to == DType::kNull) return nullptr;
  return VisitDType(from, [&](auto from_tag) {
    return VisitDType(to, [&](auto to_tag) -> Kernel {
      return &ConversionKernel<typename decltype(from_tag)::Type, typename decltype(to_tag)::Type>;
    });
  });
}

Kernel FindRounding(DType half) {
  return half == DType::kF16 ? &RoundingKernel<Half> : &RoundingKernel<BFloat16>;
}

}  // namespace oort::expression
