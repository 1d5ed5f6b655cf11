// SPDX-License-Identifier: MIT
// The types that functions on one element are written for. See element_functions.h.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/dispatch.h"
#include "core/host_device.h"

namespace oort::expression {

/// A bool as tensors store it. Any byte but 0 is true, so no file can hold an illegal one.
struct Bool {
  uint8_t bits = 0;
  Bool() = default;
  OORT_HOST_DEVICE Bool(bool value) : bits(value ? 1 : 0) {}    // NOLINT: implicit on purpose
  OORT_HOST_DEVICE operator bool() const { return bits != 0; }  // NOLINT
};

template <typename T>
concept Real = std::is_floating_point_v<T>;
template <typename T>
concept Integer = std::is_integral_v<T> && !std::is_same_v<T, bool>;
template <typename T>
concept Complex = kIsComplex<T>;
template <typename T>
concept RealOrComplex = Real<T> || Complex<T>;
template <typename T>
concept RealOrInteger = Real<T> || Integer<T>;
template <typename T>
concept Number = Real<T> || Integer<T> || Complex<T>;

/// Unsigned and at least as wide as int, so that arithmetic wraps instead of overflowing.
template <Integer T>
using Wide = std::conditional_t<sizeof(T) < 4, uint32_t, std::make_unsigned_t<T>>;

[[noreturn]] void ThrowDivisionByZero();

/// What dividing an integer by zero gives: nothing, but a kernel of the GPU cannot throw.
template <Integer T>
OORT_HOST_DEVICE T DivisionByZero() {
#ifndef __CUDA_ARCH__
  ThrowDivisionByZero();
#endif
  return 0;
}

}  // namespace oort::expression
