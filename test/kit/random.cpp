// SPDX-License-Identifier: MIT
#include <random>

#include "core/dispatch.h"
#include "oort/testing.h"
#include "test/kit/sanitized.h"

namespace oort::testing {
namespace {

template <typename MakeElement>
Tensor Fill(DType dtype, Shape shape, MakeElement make) {
  Tensor wide(DType::kF64, shape);
  for (int64_t i = 0; i < wide.elements(); ++i) wide.data<double>()[i] = make(i);
  return wide.To(dtype);
}

}  // namespace

Tensor RandomTensor(DType dtype, Shape shape, uint64_t seed, double low, double high) {
  // Drawn from raw bits: the standard's distributions differ between libraries.
  std::mt19937_64 bits(seed);
  const auto uniform = [&] { return static_cast<double>(bits() >> 11) * 0x1p-53; };
  if (IsComplex(dtype)) {
    Tensor tensor(DType::kC128, shape);
    for (int64_t i = 0; i < tensor.elements(); ++i) {
      const double real = low + (high - low) * uniform();
      const double imaginary = low + (high - low) * uniform();
      tensor.data<std::complex<double>>()[i] = {real, imaginary};
    }
    return tensor.To(dtype);
  }
  if (dtype == DType::kBool) return Fill(dtype, shape, [&](int64_t) { return uniform() < 0.5; });
  if (IsInteger(dtype)) {
    const double floor = dtype == DType::kU8 ? std::max(low, 0.0) : low;
    return Fill(dtype, shape,
                [&](int64_t) { return std::floor(floor + (high - floor + 1) * uniform()); });
  }
  return Fill(dtype, shape, [&](int64_t) { return low + (high - low) * uniform(); });
}

Tensor RangeTensor(DType dtype, Shape shape, double start, double step) {
  return Fill(dtype, shape, [&](int64_t i) { return start + step * static_cast<double>(i); });
}

std::vector<int64_t> EdgeLengths() {
  // A sanitizer sees each way to end a line once.
  if (CaseStep(2) > 1) return {0, 1, 7, 8, 17, 31, 1031};
  return {0, 1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 1031};
}

}  // namespace oort::testing
