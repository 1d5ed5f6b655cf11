// SPDX-License-Identifier: MIT
// Fourier transforms by their definition, in double precision.
#pragma once

#include <cmath>
#include <complex>
#include <numbers>
#include <vector>

#include "oort/testing.h"

namespace oort::testing {

using DftNumber = std::complex<double>;

/// Numbers of some shape, row-major.
struct DftArray {
  Shape shape;
  std::vector<DftNumber> values;

  explicit DftArray(const Shape& extents)
      : shape(extents), values(static_cast<size_t>(extents.elements())) {}
  explicit DftArray(const Tensor& tensor) : DftArray(tensor.shape()) {
    const Tensor wide = tensor.To(DType::kC128);
    std::copy_n(wide.data<DftNumber>(), values.size(), values.begin());
  }
  Tensor ToTensor(DType dtype) const {
    const Tensor wide = Tensor::From<DftNumber>(values, shape);
    return IsComplex(dtype) ? wide.To(dtype) : wide.To(DType::kC128).To(DType::kF64).To(dtype);
  }
  DftArray Scaled(double factor) const {
    DftArray result = *this;
    for (DftNumber& value : result.values) value *= factor;
    return result;
  }
};

/// Every line along `axis` through `line`, which makes `extent` numbers of the numbers there are.
template <typename Line>
DftArray MapLines(const DftArray& x, int axis, int64_t extent, const Line& line) {
  Shape shape = x.shape;
  shape[axis] = extent;
  DftArray y(shape);
  const int64_t inner = shape.Product(axis + 1, shape.rank()), count = x.shape[axis];
  const int64_t outer = shape.Product(0, axis);
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < inner; ++i) {
      std::vector<DftNumber> numbers;
      for (int64_t j = 0; j < count; ++j) {
        numbers.push_back(x.values[static_cast<size_t>((o * count + j) * inner + i)]);
      }
      const std::vector<DftNumber> made = line(std::move(numbers));
      for (int64_t j = 0; j < extent; ++j) {
        y.values[static_cast<size_t>((o * extent + j) * inner + i)] = made[static_cast<size_t>(j)];
      }
    }
  }
  return y;
}

/// Σ x[j] e^(sign 2πi jk/n) of the first n numbers; those that are missing are 0.
inline std::vector<DftNumber> DftLine(std::vector<DftNumber> x, int64_t n, int sign) {
  const auto count = static_cast<size_t>(n);
  x.resize(count);
  // Of real and imaginary parts, written out: tests are not optimized, and lines are long.
  std::vector<double> cosines(count), sines(count), real(count), imaginary(count);
  for (size_t k = 0; k < count; ++k) {
    const double turn = static_cast<double>(k) / static_cast<double>(n);
    const DftNumber root = std::polar(1.0, sign * 2 * std::numbers::pi * turn);
    cosines[k] = root.real();
    sines[k] = root.imag();
  }
  const double *cosine = cosines.data(), *sine = sines.data();
  double *to_real = real.data(), *to_imaginary = imaginary.data();
  for (size_t j = 0; j < count; ++j) {
    if (x[j] == 0.0) continue;  // long lines are tested with few numbers
    const double a = x[j].real(), b = x[j].imag();
    for (size_t k = 0, turn = 0; k < count; ++k) {
      to_real[k] += a * cosine[turn] - b * sine[turn];
      to_imaginary[k] += a * sine[turn] + b * cosine[turn];
      turn += j;  // j k modulo n
      if (turn >= count) turn -= count;
    }
  }
  std::vector<DftNumber> y;
  y.reserve(count);
  for (size_t k = 0; k < count; ++k) y.emplace_back(real[k], imaginary[k]);
  return y;
}

inline DftArray Dft(const DftArray& x, int axis, int64_t n, int sign) {
  return MapLines(x, axis, n,
                  [&](std::vector<DftNumber> line) { return DftLine(std::move(line), n, sign); });
}

/// The first n/2 + 1 numbers of a transform.
inline DftArray DftFirstHalf(const DftArray& x, int axis, int64_t n, int sign) {
  return MapLines(x, axis, n / 2 + 1,
                  [&](std::vector<DftNumber> line) { return DftLine(std::move(line), n, sign); });
}

/// The transform of a line whose second half is the mirror image of the first.
inline DftArray DftOfHalf(const DftArray& x, int axis, int64_t n, int sign) {
  return MapLines(x, axis, n, [&](std::vector<DftNumber> line) {
    line.resize(static_cast<size_t>(n / 2 + 1));
    line.resize(static_cast<size_t>(n));
    line[0] = line[0].real();
    if (n % 2 == 0) line[static_cast<size_t>(n / 2)] = line[static_cast<size_t>(n / 2)].real();
    for (int64_t k = 1; k < n - k; ++k) {
      line[static_cast<size_t>(n - k)] = std::conj(line[static_cast<size_t>(k)]);
    }
    std::vector<DftNumber> y = DftLine(std::move(line), n, sign);
    for (DftNumber& value : y) value = value.real();
    return y;
  });
}

}  // namespace oort::testing
