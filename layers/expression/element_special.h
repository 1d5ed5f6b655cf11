// SPDX-License-Identifier: MIT
// Special functions and those on signs and digits of one element. See element_functions.h.
#pragma once

#include <cstring>

#include "layers/expression/element_functions.h"
#include "layers/expression/special.h"

namespace oort::expression::ops {

// clang-format off: one function a line
#define OORT_SPECIAL1(name, function)                                   \
  struct name {                                                         \
    template <Real T>                                                   \
    static T Call(T x) {                                                \
      return static_cast<T>(special::function(static_cast<double>(x))); \
    }                                                                   \
  }
#define OORT_SPECIAL2(name)                                                                 \
  struct name {                                                                             \
    template <Real T>                                                                       \
    static T Call(T a, T b) {                                                               \
      return static_cast<T>(special::name(static_cast<double>(a), static_cast<double>(b))); \
    }                                                                                       \
  }

OORT_SPECIAL1(Digamma, Digamma);
OORT_SPECIAL1(Erfcx, Erfcx);
OORT_SPECIAL1(Erfinv, Erfinv);
OORT_SPECIAL1(I0, BesselI0);
OORT_SPECIAL1(I0e, BesselI0Scaled);
OORT_SPECIAL1(I1, BesselI1);
OORT_SPECIAL1(I1e, BesselI1Scaled);
OORT_SPECIAL1(LogNdtr, LogNdtr);
OORT_SPECIAL1(Ndtri, Ndtri);
OORT_SPECIAL1(Sinc, Sinc);
OORT_SPECIAL2(Igamma);
OORT_SPECIAL2(Igammac);
OORT_SPECIAL2(Zeta);
// clang-format on
#undef OORT_SPECIAL1
#undef OORT_SPECIAL2

struct Signbit {
  template <Real T>
  static Bool Call(T x) {
    return std::signbit(x);
  }
  template <Integer T>
  static Bool Call(T x) {
    return x < 0;
  }
  template <std::same_as<Bool> T>
  static Bool Call(T) {
    return false;
  }
};

struct Copysign {
  template <Real T>
  static T Call(T a, T b) {
    return std::copysign(a, b);
  }
};

struct Hypot {
  template <Real T>
  static T Call(T a, T b) {
    return std::hypot(a, b);
  }
};

struct Nextafter {
  template <Real T>
  static T Call(T a, T b) {
    return std::nextafter(a, b);
  }
};

/// Of unsigned numbers, so that the smallest number has an absolute value.
template <Integer T>
Wide<T> GreatestDivisor(T a, T b) {
  const auto absolute = [](T x) {
    return x < 0 ? Wide<T>(0) - static_cast<Wide<T>>(x) : static_cast<Wide<T>>(x);
  };
  Wide<T> x = absolute(a), y = absolute(b);
  while (y != 0) {
    const Wide<T> rest = x % y;
    x = y;
    y = rest;
  }
  return x;
}

struct Gcd {
  template <Integer T>
  static T Call(T a, T b) {
    return static_cast<T>(GreatestDivisor(a, b));
  }
};

struct Lcm {
  template <Integer T>
  static T Call(T a, T b) {
    const Wide<T> divisor = GreatestDivisor(a, b);
    if (divisor == 0) return 0;
    const auto absolute = [](T x) {
      return x < 0 ? Wide<T>(0) - static_cast<Wide<T>>(x) : static_cast<Wide<T>>(x);
    };
    const T multiple = static_cast<T>(absolute(a) / divisor * absolute(b));
    return multiple < 0 ? static_cast<T>(Wide<T>(0) - static_cast<Wide<T>>(multiple)) : multiple;
  }
};

}  // namespace oort::expression::ops
