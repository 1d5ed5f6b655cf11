// SPDX-License-Identifier: MIT
#include "layers/expression/kernels.h"

#include "cpu/lanes_kernels.h"
#if defined(__aarch64__)
#include <arm_neon.h>
#endif

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

#if defined(__aarch64__)
// A loop of single elements takes thirty times as long.

template <>
void ConversionKernel<Half, float>(const void* const* args, void* out, int64_t count) {
  const Half* x = static_cast<const Half*>(args[0]);
  float* y = static_cast<float*>(out);
  int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    vst1q_f32(y + i, vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(&x[i].bits))));
  }
  for (; i < count; ++i) y[i] = static_cast<float>(x[i]);
}

template <>
void ConversionKernel<float, Half>(const void* const* args, void* out, int64_t count) {
  const float* x = static_cast<const float*>(args[0]);
  Half* y = static_cast<Half*>(out);
  int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    vst1_u16(&y[i].bits, vreinterpret_u16_f16(vcvt_f16_f32(vld1q_f32(x + i))));
  }
  for (; i < count; ++i) y[i] = Half(x[i]);
}

#endif

template <typename Half>
void RoundingKernel(const void* const* args, void* out, int64_t count) {
  const float* x = static_cast<const float*>(args[0]);
  float* y = static_cast<float*>(out);
  for (int64_t i = 0; i < count; ++i) y[i] = static_cast<float>(Half(x[i]));
}

#if defined(__aarch64__)
template <>
void RoundingKernel<Half>(const void* const* args, void* out, int64_t count) {
  const float* x = static_cast<const float*>(args[0]);
  float* y = static_cast<float*>(out);
  int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    vst1q_f32(y + i, vcvt_f32_f16(vcvt_f16_f32(vld1q_f32(x + i))));
  }
  for (; i < count; ++i) y[i] = static_cast<float>(Half(x[i]));
}
#endif

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

Kernel FindRepeatedKernel(Function function, size_t which, DType dtype, Isa isa) {
  if (dtype != DType::kF32 || which > 1) return nullptr;
  return ExpressionKernelsFor(isa).repeated[which][static_cast<size_t>(function)];
}

namespace {

/// Null unless the processor converts f16 in vectors.
Kernel FindHalfConversion([[maybe_unused]] DType from, [[maybe_unused]] DType to) {
#if defined(OORT_F16_UNIT)
  if (!HasF16Arithmetic(DefaultIsa())) return nullptr;
  const HalfExpressionKernels& kernels = OORT_F16_UNIT::HalfExpressionKernelsGet();
  if (from == DType::kF16 && to == DType::kF32) return kernels.widen;
  if (from == DType::kF32 && to == DType::kF16) return kernels.narrow;
#endif
  return nullptr;
}

}  // namespace

Kernel FindConversion(DType from, DType to) {
  if (const Kernel quick = FindHalfConversion(from, to)) return quick;
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

Kernel FindHalfKernel([[maybe_unused]] Function function, Isa isa) {
  if (!HasF16Arithmetic(isa)) return nullptr;
#if defined(OORT_F16_UNIT)
  return OORT_F16_UNIT::HalfExpressionKernelsGet().functions[static_cast<size_t>(function)];
#else
  return nullptr;
#endif
}

}  // namespace oort::expression
