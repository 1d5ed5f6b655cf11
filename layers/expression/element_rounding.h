// SPDX-License-Identifier: MIT
// Rounding, and what kind of number one element is. See element_functions.h.
#pragma once

#include <cmath>
#include <concepts>

#include "layers/expression/element_types.h"

namespace oort::expression::ops {

/// ceil, floor, round and trunc leave integers as they are.
template <typename Rounding>
struct RoundingOp {
  template <Real T>
  OORT_HOST_DEVICE static T Call(T x) {
    return Rounding()(x);
  }
  template <Integer T>
  OORT_HOST_DEVICE static T Call(T x) {
    return x;
  }
};
// clang-format off: one function a line
struct CeilOf {
  template <typename T>
  OORT_HOST_DEVICE T operator()(T x) const {
    return std::ceil(x);
  }
};
struct FloorOf {
  template <typename T>
  OORT_HOST_DEVICE T operator()(T x) const {
    return std::floor(x);
  }
};
struct RoundOf {
  template <typename T>
  OORT_HOST_DEVICE T operator()(T x) const {
    return std::nearbyint(x);
  }
};
struct TruncOf {
  template <typename T>
  OORT_HOST_DEVICE T operator()(T x) const {
    return std::trunc(x);
  }
};
// clang-format on
using Ceil = RoundingOp<CeilOf>;
using Floor = RoundingOp<FloorOf>;
using Round = RoundingOp<RoundOf>;
using Trunc = RoundingOp<TruncOf>;

struct BitwiseNot {
  template <Integer T>
  OORT_HOST_DEVICE static T Call(T x) {
    return static_cast<T>(~x);
  }
  template <std::same_as<Bool> T>
  OORT_HOST_DEVICE static T Call(T x) {
    return !x;
  }
};

template <typename Test>
struct ClassifyOp {
  template <Real T>
  OORT_HOST_DEVICE static Bool Call(T x) {
    return Test::Real(x);
  }
  template <Complex T>
  OORT_HOST_DEVICE static Bool Call(T x) {
    return Test::Both(Test::Real(x.real()), Test::Real(x.imag()));
  }
  template <Integer T>
  OORT_HOST_DEVICE static Bool Call(T) {
    return Test::Real(0.0);
  }
  template <std::same_as<Bool> T>
  OORT_HOST_DEVICE static Bool Call(T) {
    return Test::Real(0.0);
  }
};
// clang-format off: one function a line
struct FiniteTest {
  OORT_HOST_DEVICE static bool Real(double x) { return std::isfinite(x); }
  OORT_HOST_DEVICE static bool Both(bool a, bool b) { return a && b; }
};
struct InfTest {
  OORT_HOST_DEVICE static bool Real(double x) { return std::isinf(x); }
  OORT_HOST_DEVICE static bool Both(bool a, bool b) { return a || b; }
};
struct NanTest {
  OORT_HOST_DEVICE static bool Real(double x) { return std::isnan(x); }
  OORT_HOST_DEVICE static bool Both(bool a, bool b) { return a || b; }
};
// clang-format on
using Isfinite = ClassifyOp<FiniteTest>;
using Isinf = ClassifyOp<InfTest>;
using Isnan = ClassifyOp<NanTest>;

}  // namespace oort::expression::ops
