// SPDX-License-Identifier: MIT
// From a dtype at run time to a type at compile time.
#pragma once

#include <complex>
#include <type_traits>

#include "oort/dtype.h"
#include "oort/error.h"

namespace oort {

template <typename T>
struct TypeTag {
  using Type = T;
};

/// Calls visit(TypeTag<T>{}) with the C++ type of `dtype`. c32 has no C++ type of its own.
template <typename Visitor>
decltype(auto) VisitDType(DType dtype, Visitor&& visit) {
  switch (dtype) {
    case DType::kF32: return visit(TypeTag<float>{});
    case DType::kF64: return visit(TypeTag<double>{});
    case DType::kF16: return visit(TypeTag<Half>{});
    case DType::kBF16: return visit(TypeTag<BFloat16>{});
    case DType::kI8: return visit(TypeTag<int8_t>{});
    case DType::kU8: return visit(TypeTag<uint8_t>{});
    case DType::kI16: return visit(TypeTag<int16_t>{});
    case DType::kI32: return visit(TypeTag<int32_t>{});
    case DType::kI64: return visit(TypeTag<int64_t>{});
    case DType::kBool: return visit(TypeTag<bool>{});
    case DType::kC64: return visit(TypeTag<std::complex<float>>{});
    case DType::kC128: return visit(TypeTag<std::complex<double>>{});
    default: break;
  }
  throw Error(ErrorCode::kUnsupported, "no arithmetic on dtype " + std::string(Name(dtype)));
}

template <typename T>
inline constexpr bool kIsComplex =
    std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>;
template <typename T>
inline constexpr bool kIsHalf = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

/// Visits an unsigned integer (or a pair of u64) of the size of the dtype, for kernels that only
/// move elements.
struct Bytes16 {
  uint64_t low, high;
};
template <typename Visitor>
decltype(auto) VisitItemSize(DType dtype, Visitor&& visit) {
  switch (ItemSize(dtype)) {
    case 1: return visit(TypeTag<uint8_t>{});
    case 2: return visit(TypeTag<uint16_t>{});
    case 4: return visit(TypeTag<uint32_t>{});
    case 8: return visit(TypeTag<uint64_t>{});
    case 16: return visit(TypeTag<Bytes16>{});
    default: break;
  }
  throw Error(ErrorCode::kUnsupported, "no elements of dtype " + std::string(Name(dtype)));
}

/// Converts one element as torch's .to() does.
template <typename To, typename From>
inline To ConvertElement(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (kIsHalf<From>) {
    return ConvertElement<To>(static_cast<float>(value));
  } else if constexpr (kIsComplex<From>) {
    if constexpr (kIsComplex<To>) {
      return To(static_cast<typename To::value_type>(value.real()),
                static_cast<typename To::value_type>(value.imag()));
    } else if constexpr (std::is_same_v<To, bool>) {
      return value.real() != 0 || value.imag() != 0;
    } else {
      return ConvertElement<To>(value.real());
    }
  } else if constexpr (kIsComplex<To>) {
    return To(static_cast<typename To::value_type>(value), 0);
  } else if constexpr (kIsHalf<To>) {
    return To(static_cast<float>(value));
  } else if constexpr (std::is_same_v<To, bool>) {
    return value != From(0);
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    // A float out of range is undefined in C++; saturate to i64, then wrap as torch's casts do.
    if (!(value > From(-9223372036854775808.0))) {
      return static_cast<To>(value != value ? 0 : INT64_MIN);
    }
    if (!(value < From(9223372036854775808.0))) return static_cast<To>(INT64_MAX);
    return static_cast<To>(static_cast<int64_t>(value));
  } else {
    return static_cast<To>(value);
  }
}

}  // namespace oort
