// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "core/dispatch.h"
#include "oort/testing.h"

namespace oort::testing {
namespace {

Tolerance DefaultFor(DType dtype) {
  switch (dtype) {
    case DType::kF64:
    case DType::kC128: return {1e-11, 1e-9};
    case DType::kF16:
    case DType::kC32: return {2e-3, 2e-3};
    case DType::kBF16: return {1e-2, 1.6e-2};
    default: return {1e-5, 1e-4};
  }
}

bool Exact(DType dtype) { return IsInteger(dtype) || dtype == DType::kBool; }

/// The error as a multiple of what is allowed; infinite where no tolerance could help.
double Excess(double got, double want, const Tolerance& tolerance) {
  if (std::isnan(want) || std::isnan(got))
    return std::isnan(want) == std::isnan(got) ? 0 : INFINITY;
  if (std::isinf(want) || std::isinf(got)) return want == got ? 0 : INFINITY;
  const double difference = std::abs(got - want);
  if (difference == 0) return 0;
  return difference / (tolerance.absolute + tolerance.relative * std::abs(want));
}

std::string Position(const Shape& shape, int64_t flat) {
  std::vector<int64_t> index(static_cast<size_t>(shape.rank()));
  for (int axis = shape.rank(); axis-- > 0;) {
    index[static_cast<size_t>(axis)] = flat % shape[axis];
    flat /= shape[axis];
  }
  return Shape(index).ToString();
}

}  // namespace

void ExpectNear(const Tensor& got, const Tensor& want, Tolerance tolerance) {
  ASSERT_EQ(got.dtype(), want.dtype()) << "got " << got.ToString() << ", want " << want.ToString();
  ASSERT_EQ(got.shape(), want.shape()) << "got " << got.ToString() << ", want " << want.ToString();
  const Tolerance fallback = DefaultFor(got.dtype());
  if (tolerance.absolute < 0) tolerance.absolute = fallback.absolute;
  if (tolerance.relative < 0) tolerance.relative = fallback.relative;
  if (Exact(got.dtype())) tolerance = {0.5, 0};
  // A complex number is compared as two reals.
  const bool complex = IsComplex(got.dtype());
  const Tensor wide_got = got.To(complex ? DType::kC128 : DType::kF64);
  const Tensor wide_want = want.To(complex ? DType::kC128 : DType::kF64);
  const double* got_values = reinterpret_cast<const double*>(wide_got.raw());
  const double* want_values = reinterpret_cast<const double*>(wide_want.raw());
  const int64_t parts = complex ? 2 : 1;
  double worst = 0;
  int64_t worst_index = -1, wrong = 0;
  for (int64_t i = 0; i < got.elements() * parts; ++i) {
    const double excess = Excess(got_values[i], want_values[i], tolerance);
    if (excess > 1) ++wrong;
    if (excess > worst) {
      worst = excess;
      worst_index = i;
    }
  }
  if (wrong == 0) return;
  std::ostringstream text;
  text.precision(9);
  text << wrong << " of " << got.elements() << " elements differ; the worst at "
       << Position(got.shape(), worst_index / parts) << ": got " << got_values[worst_index]
       << ", want " << want_values[worst_index] << " (" << worst << " x the tolerance)";
  ADD_FAILURE() << text.str();
}

}  // namespace oort::testing
