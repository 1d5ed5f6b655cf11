// SPDX-License-Identifier: MIT
// One number, real or complex, with the operations of cpu/vec.h that cpu/formulas.h needs.
#pragma once

#include <cmath>
#include <complex>
#include <concepts>

#include "core/host_device.h"

namespace oort::expression {

struct LaneMask {
  bool v;
};

template <typename T>
struct Lane {
  T v;
  template <std::convertible_to<T> U>
  OORT_HOST_DEVICE Lane(U value) : v(static_cast<T>(value)) {}  // NOLINT: implicit on purpose
};

// clang-format off: one operation a line
template <typename T>
OORT_HOST_DEVICE inline Lane<T> operator+(Lane<T> a, Lane<T> b) {
  return a.v + b.v;
}
template <typename T>
OORT_HOST_DEVICE inline Lane<T> operator-(Lane<T> a, Lane<T> b) {
  return a.v - b.v;
}
template <typename T>
OORT_HOST_DEVICE inline Lane<T> operator*(Lane<T> a, Lane<T> b) {
  return a.v * b.v;
}
template <typename T>
OORT_HOST_DEVICE inline Lane<T> operator/(Lane<T> a, Lane<T> b) {
  return a.v / b.v;
}
template <typename T>
OORT_HOST_DEVICE inline Lane<T> operator-(Lane<T> a) {
  return -a.v;
}
template <typename T>
OORT_HOST_DEVICE inline LaneMask operator==(Lane<T> a, Lane<T> b) {
  return {a.v == b.v};
}
template <typename T>
OORT_HOST_DEVICE inline LaneMask operator<(Lane<T> a, Lane<T> b) {
  return {a.v < b.v};
}
template <typename T>
OORT_HOST_DEVICE inline LaneMask operator<=(Lane<T> a, Lane<T> b) {
  return {a.v <= b.v};
}
template <typename T>
OORT_HOST_DEVICE inline LaneMask operator>(Lane<T> a, Lane<T> b) {
  return {a.v > b.v};
}
template <typename T>
OORT_HOST_DEVICE inline LaneMask operator>=(Lane<T> a, Lane<T> b) {
  return {a.v >= b.v};
}
OORT_HOST_DEVICE inline LaneMask operator&(LaneMask a, LaneMask b) { return {a.v && b.v}; }
template <typename T>
OORT_HOST_DEVICE inline Lane<T> Select(LaneMask mask, Lane<T> a, Lane<T> b) {
  return mask.v ? a : b;
}
template <typename T>
OORT_HOST_DEVICE inline Lane<T> Min(Lane<T> a, Lane<T> b) {
  return a.v < b.v || a.v != a.v ? a : b;
}
template <typename T>
OORT_HOST_DEVICE inline Lane<T> Max(Lane<T> a, Lane<T> b) {
  return a.v > b.v || a.v != a.v ? a : b;
}
template <typename T>
OORT_HOST_DEVICE inline Lane<T> Abs(Lane<T> x) {
  return std::abs(x.v);
}
template <typename T>
OORT_HOST_DEVICE inline Lane<T> Sqrt(Lane<T> x) {
  return std::sqrt(x.v);
}
template <typename T>
OORT_HOST_DEVICE inline Lane<T> Exp(Lane<T> x) {
  return std::exp(x.v);
}
template <typename T>
OORT_HOST_DEVICE inline Lane<T> Expm1(Lane<T> x) {
  return std::expm1(x.v);
}
template <typename T>
OORT_HOST_DEVICE inline Lane<T> Log1p(Lane<T> x) {
  return std::log1p(x.v);
}
template <typename T>
OORT_HOST_DEVICE inline Lane<T> Tanh(Lane<T> x) {
  return std::tanh(x.v);
}
template <typename T>
OORT_HOST_DEVICE inline Lane<T> Erf(Lane<T> x) {
  return std::erf(x.v);
}
template <typename T>
OORT_HOST_DEVICE inline Lane<T> NormalCdf(Lane<T> x) {
  return T(0.5) * (T(1) + std::erf(x.v * T(0.70710678118654752440)));
}
template <typename T>
OORT_HOST_DEVICE inline Lane<T> Sigmoid(Lane<T> x) {
  return T(1) / (T(1) + std::exp(-x.v));
}
// clang-format on

}  // namespace oort::expression
