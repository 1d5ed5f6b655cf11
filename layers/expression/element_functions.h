// SPDX-License-Identifier: MIT
// The functions on one element of each type, with torch's semantics. A function that lacks a
// `Call` for some type does not exist for it.
#pragma once

#include <cmath>
#include <complex>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

#include "core/dispatch.h"
#include "cpu/formulas.h"
#include "layers/expression/element_rounding.h"
#include "layers/expression/element_types.h"
#include "layers/expression/lane.h"
#include "oort/error.h"

namespace oort::expression {

namespace ops {

// clang-format off: one function a line
#define OORT_OP1(name, Kind, expression)  \
  struct name {                           \
    template <Kind T>                     \
    OORT_HOST_DEVICE static T Call(T x) { \
      return expression;                  \
    }                                     \
  }
#define OORT_OP2(name, Kind, expression)       \
  struct name {                                \
    template <Kind T>                          \
    OORT_HOST_DEVICE static T Call(T a, T b) { \
      return expression;                       \
    }                                          \
  }
#define OORT_COMPARE(name, Kind, op)              \
  struct name {                                   \
    template <Kind T>                             \
    OORT_HOST_DEVICE static Bool Call(T a, T b) { \
      return a op b;                              \
    }                                             \
    template <std::same_as<Bool> T>               \
    OORT_HOST_DEVICE static Bool Call(T a, T b) { \
      return bool(a) op bool(b);                  \
    }                                             \
  }
OORT_OP1(Acos, RealOrComplex, std::acos(x));
OORT_OP1(Acosh, RealOrComplex, std::acosh(x));
OORT_OP1(Asin, RealOrComplex, std::asin(x));
OORT_OP1(Asinh, RealOrComplex, std::asinh(x));
OORT_OP1(Atan, RealOrComplex, std::atan(x));
OORT_OP1(Atanh, RealOrComplex, std::atanh(x));
OORT_OP1(Cos, RealOrComplex, std::cos(x));
OORT_OP1(Cosh, RealOrComplex, std::cosh(x));
OORT_OP1(Erf, Real, std::erf(x));
OORT_OP1(Erfc, Real, std::erfc(x));
OORT_OP1(Exp, RealOrComplex, std::exp(x));
OORT_OP1(Log, RealOrComplex, std::log(x));
OORT_OP1(Log10, RealOrComplex, std::log10(x));
OORT_OP1(Sigmoid, RealOrComplex, T(1) / (T(1) + std::exp(-x)));
OORT_OP1(Sin, RealOrComplex, std::sin(x));
OORT_OP1(Sinh, RealOrComplex, std::sinh(x));
OORT_OP1(Sqrt, RealOrComplex, std::sqrt(x));
OORT_OP1(Tan, RealOrComplex, std::tan(x));
OORT_OP1(Tanh, RealOrComplex, std::tanh(x));
OORT_OP2(Atan2, Real, std::atan2(a, b));

OORT_COMPARE(Eq, Number, ==);
OORT_COMPARE(Ne, Number, !=);
OORT_COMPARE(Lt, RealOrInteger, <);
OORT_COMPARE(Le, RealOrInteger, <=);
OORT_COMPARE(Gt, RealOrInteger, >);
OORT_COMPARE(Ge, RealOrInteger, >=);
// clang-format on

#undef OORT_OP1
#undef OORT_OP2
#undef OORT_COMPARE

/// The functions of the table that are a formula.
#define OORT_OF_FORMULA(name, Kind)                          \
  struct name {                                              \
    template <Kind T, std::same_as<T>... Rest>               \
    OORT_HOST_DEVICE static T Call(T x, Rest... rest) {      \
      return formulas::name(Lane<T>(x), Lane<T>(rest)...).v; \
    }                                                        \
  };
#define OORT_ELEMENT_None(name)
#define OORT_ELEMENT_Where(name)
#define OORT_ELEMENT_Element(name)  // in this file, or in another element_*.h
#define OORT_ELEMENT_Formula(name) OORT_OF_FORMULA(name, Real)
#define OORT_ELEMENT_ComplexFormula(name) OORT_OF_FORMULA(name, RealOrComplex)
#define OORT_FUNCTION(id, name, arity, rule, scalar, ...) OORT_ELEMENT_##scalar(id)
#include "parser/expression/functions.inc"
#undef OORT_OF_FORMULA
#undef OORT_ELEMENT_None
#undef OORT_ELEMENT_Where
#undef OORT_ELEMENT_Element
#undef OORT_ELEMENT_Formula
#undef OORT_ELEMENT_ComplexFormula

struct Silu {
  template <Real T>
  OORT_HOST_DEVICE static T Call(T x) {
    return formulas::Silu(Lane<T>(x)).v;
  }
  template <Complex T>
  OORT_HOST_DEVICE static T Call(T x) {
    return x / (T(1) + std::exp(-x));
  }
};

struct Abs {
  template <RealOrComplex T>
  OORT_HOST_DEVICE static auto Call(T x) {
    return std::abs(x);
  }
  template <Integer T>
  OORT_HOST_DEVICE static T Call(T x) {
    return x < 0 ? static_cast<T>(Wide<T>(0) - static_cast<Wide<T>>(x)) : x;
  }
};

struct RealPart {
  template <Complex T>
  OORT_HOST_DEVICE static auto Call(T x) {
    return x.real();
  }
};

struct ImagPart {
  template <Complex T>
  OORT_HOST_DEVICE static auto Call(T x) {
    return x.imag();
  }
};

struct MakeComplex {
  template <Real T>
  OORT_HOST_DEVICE static std::complex<T> Call(T a, T b) {
    return {a, b};
  }
};

struct Neg {
  template <RealOrComplex T>
  OORT_HOST_DEVICE static T Call(T x) {
    return -x;
  }
  template <Integer T>
  OORT_HOST_DEVICE static T Call(T x) {
    return static_cast<T>(Wide<T>(0) - static_cast<Wide<T>>(x));
  }
};

struct Sign {
  template <RealOrInteger T>
  OORT_HOST_DEVICE static T Call(T x) {
    return static_cast<T>((x > T(0) ? 1 : 0) - (x < T(0) ? 1 : 0));
  }
  template <std::same_as<Bool> T>
  OORT_HOST_DEVICE static T Call(T x) {
    return x;
  }
};

struct Exp2 {
  template <Real T>
  OORT_HOST_DEVICE static T Call(T x) {
    return std::exp2(x);
  }
  template <Complex T>
  OORT_HOST_DEVICE static T Call(T x) {
    return std::exp(x * T(0.69314718055994530942));
  }
};

struct Log2 {
  template <Real T>
  OORT_HOST_DEVICE static T Call(T x) {
    return std::log2(x);
  }
  template <Complex T>
  OORT_HOST_DEVICE static T Call(T x) {
    return std::log(x) * T(1.44269504088896340736);
  }
};

struct Expm1 {
  template <Real T>
  OORT_HOST_DEVICE static T Call(T x) {
    return std::expm1(x);
  }
  template <Complex T>
  OORT_HOST_DEVICE static T Call(T z) {
    const auto x = z.real(), y = z.imag(), half = std::sin(y / 2);
    return T(std::expm1(x) * std::cos(y) - 2 * half * half, std::exp(x) * std::sin(y));
  }
};

struct Log1p {
  template <Real T>
  OORT_HOST_DEVICE static T Call(T x) {
    return std::log1p(x);
  }
  template <Complex T>
  OORT_HOST_DEVICE static T Call(T z) {
    const auto x = z.real(), y = z.imag();
    const auto angle = std::atan2(y, x + 1);
    if (std::abs(z) < 0.5) return T(std::log1p(x * (2 + x) + y * y) / 2, angle);
    return T(std::log(std::abs(z + T(1))), angle);
  }
};

struct Logaddexp {
  template <Real T>
  OORT_HOST_DEVICE static T Call(T a, T b) {
    return formulas::Logaddexp(Lane<T>(a), Lane<T>(b)).v;
  }
  template <Complex T>
  OORT_HOST_DEVICE static T Call(T a, T b) {
    if (a.real() < b.real()) std::swap(a, b);
    return a == b ? a + T(0.69314718055994530942) : a + Log1p::Call(std::exp(b - a));
  }
};

struct Lgamma {
  template <Real T>
  OORT_HOST_DEVICE static T Call(T x) {
#if defined(__GLIBC__) && !defined(__CUDA_ARCH__)
    int sign;  // std::lgamma would write it to a global, which races
    return static_cast<T>(::lgamma_r(x, &sign));
#else
    return std::lgamma(x);
#endif
  }
};

}  // namespace ops
}  // namespace oort::expression
