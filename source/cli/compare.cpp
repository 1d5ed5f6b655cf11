// SPDX-License-Identifier: MIT
#include "cli/compare.h"

#include <cmath>
#include <complex>
#include <limits>

#include "cli/text.h"

namespace oort::cli {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::string IndexText(const Shape& shape, int64_t flat) {
  std::string text;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    text = std::to_string(flat % shape[axis]) + (text.empty() ? "" : "," + text);
    flat /= shape[axis];
  }
  return text.empty() ? "" : "[" + text + "]";
}

std::string ValueText(double value) { return FormatNumber(value, 9); }
std::string ValueText(int64_t value) { return std::to_string(value); }
std::string ValueText(std::complex<double> value) {
  return FormatNumber(value.real(), 9) + (std::signbit(value.imag()) ? "-" : "+") +
         FormatNumber(std::abs(value.imag()), 9) + "j";
}

bool IsNan(double value) { return std::isnan(value); }
bool IsNan(std::complex<double> value) { return IsNan(value.real()) || IsNan(value.imag()); }

double Distance(int64_t a, int64_t b) {
  return std::abs(static_cast<double>(a) - static_cast<double>(b));
}
template <typename T>
double Distance(T got, T want) {
  if (got == want) return 0;  // also for equal infinities
  if (IsNan(got) && IsNan(want)) return 0;
  const double distance = std::abs(got - want);
  return std::isnan(distance) ? kInfinity : distance;
}

double Magnitude(int64_t value) { return std::abs(static_cast<double>(value)); }
template <typename T>
double Magnitude(T value) {
  return std::abs(value);
}

/// Both tensors converted to the widest type T of their kind.
template <typename T>
Comparison CompareAs(const Tensor& got, const Tensor& want, const Tolerance& limits) {
  const Tensor wide_got = got.To(kDTypeOf<T>), wide_want = want.To(kDTypeOf<T>);
  const T* a = wide_got.data<T>();
  const T* b = wide_want.data<T>();
  constexpr bool kExact = std::is_same_v<T, int64_t>;
  Comparison result;
  int64_t first = -1, wrong = 0;
  for (int64_t i = 0; i < got.elements(); ++i) {
    const double distance = Distance(a[i], b[i]);
    const double size = Magnitude(b[i]);
    if (std::isfinite(size)) result.largest = std::max(result.largest, size);
    result.max_absolute = std::max(result.max_absolute, distance);
    if (distance > 0) result.max_relative = std::max(result.max_relative, distance / size);
    const double allowed = kExact ? 0 : limits.absolute + limits.relative * size;
    const bool near =
        kExact ? a[i] == b[i] : distance == 0 || (std::isfinite(size) && distance <= allowed);
    if (near) continue;
    if (wrong++ == 0) first = i;
  }
  if (wrong > 0) {
    result.difference = IndexText(got.shape(), first) + " is " + ValueText(a[first]) +
                        ", expected " + ValueText(b[first]) + " (" + std::to_string(wrong) +
                        " of " + std::to_string(got.elements()) + " elements differ, max_abs " +
                        FormatNumber(result.max_absolute, 3) + ")";
  }
  return result;
}

}  // namespace

Comparison Compare(const Tensor& got, const Tensor& want, const Tolerance& limits) {
  if (got.dtype() != want.dtype() || !(got.shape() == want.shape())) {
    return {" is " + got.ToString() + ", expected " + want.ToString(), kInfinity, kInfinity};
  }
  if (IsComplex(got.dtype())) return CompareAs<std::complex<double>>(got, want, limits);
  if (IsFloat(got.dtype())) return CompareAs<double>(got, want, limits);
  return CompareAs<int64_t>(got, want, limits);
}

}  // namespace oort::cli
