// SPDX-License-Identifier: MIT
// One f64 with the operations of cpu/vec.h that cpu/formulas.h needs.
#pragma once

#include <cmath>

namespace oort::expression {

struct F64Mask {
  bool v;
};

struct F64 {
  double v;
  F64(double value) : v(value) {}  // NOLINT: implicit on purpose
};

// clang-format off: one operation a line
inline F64 operator+(F64 a, F64 b) { return a.v + b.v; }
inline F64 operator-(F64 a, F64 b) { return a.v - b.v; }
inline F64 operator*(F64 a, F64 b) { return a.v * b.v; }
inline F64 operator/(F64 a, F64 b) { return a.v / b.v; }
inline F64 operator-(F64 a) { return -a.v; }
inline F64Mask operator==(F64 a, F64 b) { return {a.v == b.v}; }
inline F64Mask operator<(F64 a, F64 b) { return {a.v < b.v}; }
inline F64Mask operator<=(F64 a, F64 b) { return {a.v <= b.v}; }
inline F64Mask operator>(F64 a, F64 b) { return {a.v > b.v}; }
inline F64Mask operator>=(F64 a, F64 b) { return {a.v >= b.v}; }
inline F64Mask operator&(F64Mask a, F64Mask b) { return {a.v && b.v}; }
inline F64 Select(F64Mask mask, F64 a, F64 b) { return mask.v ? a : b; }
inline F64 Min(F64 a, F64 b) { return a.v < b.v || a.v != a.v ? a : b; }
inline F64 Max(F64 a, F64 b) { return a.v > b.v || a.v != a.v ? a : b; }
inline F64 Abs(F64 x) { return std::fabs(x.v); }
inline F64 Exp(F64 x) { return std::exp(x.v); }
inline F64 Expm1(F64 x) { return std::expm1(x.v); }
inline F64 Log1p(F64 x) { return std::log1p(x.v); }
inline F64 Tanh(F64 x) { return std::tanh(x.v); }
inline F64 Erf(F64 x) { return std::erf(x.v); }
inline F64 Sigmoid(F64 x) { return 1 / (1 + std::exp(-x.v)); }
// clang-format on

}  // namespace oort::expression
