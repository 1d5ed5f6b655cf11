// SPDX-License-Identifier: MIT
// The functions of two and three elements whose semantics depend on the type: wrapping integers,
// Python's division, NaN in maximum. See element_functions.h.
#pragma once

#include "layers/expression/element_functions.h"

namespace oort::expression::ops {

struct Add {
  template <RealOrComplex T>
  OORT_HOST_DEVICE static T Call(T a, T b) {
    return a + b;
  }
  template <Integer T>
  OORT_HOST_DEVICE static T Call(T a, T b) {
    return static_cast<T>(static_cast<Wide<T>>(a) + static_cast<Wide<T>>(b));
  }
  template <std::same_as<Bool> T>
  OORT_HOST_DEVICE static T Call(T a, T b) {
    return a || b;
  }
};

struct Sub {
  template <RealOrComplex T>
  OORT_HOST_DEVICE static T Call(T a, T b) {
    return a - b;
  }
  template <Integer T>
  OORT_HOST_DEVICE static T Call(T a, T b) {
    return static_cast<T>(static_cast<Wide<T>>(a) - static_cast<Wide<T>>(b));
  }
};

struct Mul {
  template <RealOrComplex T>
  OORT_HOST_DEVICE static T Call(T a, T b) {
    return a * b;
  }
  template <Integer T>
  OORT_HOST_DEVICE static T Call(T a, T b) {
    return static_cast<T>(static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b));
  }
  template <std::same_as<Bool> T>
  OORT_HOST_DEVICE static T Call(T a, T b) {
    return a && b;
  }
};

struct Fmod {
  template <Real T>
  OORT_HOST_DEVICE static T Call(T a, T b) {
    return std::fmod(a, b);
  }
  template <Integer T>
  OORT_HOST_DEVICE static T Call(T a, T b) {
    if (b == 0) return DivisionByZero<T>();
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return 0;  // the smallest number divided by -1 overflows
    }
    return static_cast<T>(a % b);
  }
};

/// The sign is the divisor's.
struct Remainder {
  template <RealOrInteger T>
  OORT_HOST_DEVICE static T Call(T a, T b) {
    const T rest = Fmod::Call(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? static_cast<T>(rest + b) : rest;
  }
};

struct FloorDivide {
  template <Real T>
  OORT_HOST_DEVICE static T Call(T a, T b) {
    if (b == 0) return a / b;
    // As Python does it: exact where a is a multiple of b, although a / b may be rounded up.
    const T rest = std::fmod(a, b);
    T quotient = (a - rest) / b;
    if (rest != 0 && (rest < 0) != (b < 0)) quotient -= 1;
    if (quotient == 0) return std::copysign(T(0), a / b);
    const T floor = std::floor(quotient);
    return quotient - floor > T(0.5) ? floor + 1 : floor;
  }
  template <Integer T>
  OORT_HOST_DEVICE static T Call(T a, T b) {
    if (b == 0) return DivisionByZero<T>();
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return Neg::Call(a);
    }
    const T quotient = static_cast<T>(a / b);
    return a % b != 0 && (a < 0) != (b < 0) ? static_cast<T>(quotient - 1) : quotient;
  }
};

struct Pow {
  template <RealOrComplex T>
  OORT_HOST_DEVICE static T Call(T a, T b) {
    return std::pow(a, b);
  }
  template <Integer T>
  OORT_HOST_DEVICE static T Call(T a, T b) {
    if (b < 0) {
      if (a == 1) return 1;
      if constexpr (std::is_signed_v<T>) {
        if (a == -1) return b % 2 == 0 ? 1 : -1;
      }
      return 0;
    }
    Wide<T> result = 1, base = static_cast<Wide<T>>(a);
    for (auto rest = static_cast<std::make_unsigned_t<T>>(b); rest != 0; rest >>= 1) {
      if (rest & 1) result *= base;
      base *= base;
    }
    return static_cast<T>(result);
  }
};

/// NaN wins, as in torch.
struct Maximum {
  template <RealOrInteger T>
  OORT_HOST_DEVICE static T Call(T a, T b) {
    return a > b || a != a ? a : b;
  }
  template <std::same_as<Bool> T>
  OORT_HOST_DEVICE static T Call(T a, T b) {
    return a || b;
  }
};

struct Minimum {
  template <RealOrInteger T>
  OORT_HOST_DEVICE static T Call(T a, T b) {
    return a < b || a != a ? a : b;
  }
  template <std::same_as<Bool> T>
  OORT_HOST_DEVICE static T Call(T a, T b) {
    return a && b;
  }
};

struct And {
  template <Integer T>
  OORT_HOST_DEVICE static T Call(T a, T b) {
    return static_cast<T>(a & b);
  }
  template <std::same_as<Bool> T>
  OORT_HOST_DEVICE static T Call(T a, T b) {
    return a && b;
  }
};

struct Or {
  template <Integer T>
  OORT_HOST_DEVICE static T Call(T a, T b) {
    return static_cast<T>(a | b);
  }
  template <std::same_as<Bool> T>
  OORT_HOST_DEVICE static T Call(T a, T b) {
    return a || b;
  }
};

struct Xor {
  template <Integer T>
  OORT_HOST_DEVICE static T Call(T a, T b) {
    return static_cast<T>(a ^ b);
  }
  template <std::same_as<Bool> T>
  OORT_HOST_DEVICE static T Call(T a, T b) {
    return bool(a) != bool(b);
  }
};

/// Counts outside of the word shift everything out.
struct Lshift {
  template <Integer T>
  OORT_HOST_DEVICE static T Call(T a, T b) {
    constexpr int kBits = static_cast<int>(8 * sizeof(T));
    if (b < 0 || b >= kBits) return 0;
    return static_cast<T>(static_cast<Wide<T>>(a) << b);
  }
};

struct Rshift {
  template <Integer T>
  OORT_HOST_DEVICE static T Call(T a, T b) {
    constexpr int kLast = static_cast<int>(8 * sizeof(T)) - 1;
    if (b < 0 || b > kLast) {
      // For unsigned numbers one more shift is needed than a word allows.
      return std::is_signed_v<T> ? static_cast<T>(a >> kLast) : T(0);
    }
    return static_cast<T>(a >> b);
  }
};

struct Relu {
  template <RealOrInteger T>
  OORT_HOST_DEVICE static T Call(T x) {
    return Maximum::Call(x, T(0));
  }
};

struct Clamp {
  template <RealOrInteger T>
  OORT_HOST_DEVICE static T Call(T x, T low, T high) {
    return Minimum::Call(Maximum::Call(x, low), high);
  }
};

struct Threshold {
  template <RealOrInteger T>
  OORT_HOST_DEVICE static T Call(T x, T threshold, T value) {
    return x <= threshold ? value : x;
  }
};

}  // namespace oort::expression::ops
