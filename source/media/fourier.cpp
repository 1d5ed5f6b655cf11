// SPDX-License-Identifier: MIT
#include "media/fourier.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace oort::media {

Fourier::Fourier(size_t size) : size_(size), roots_(size) {
  for (size_t i = 0; i < size; ++i) {
    const double angle = -2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(size);
    roots_[i] = {static_cast<float>(std::cos(angle)), static_cast<float>(std::sin(angle))};
  }
  size_t rest = size;
  for (const size_t factor : {4, 2, 3, 5}) {
    for (; rest % factor == 0; rest /= factor) factors_.push_back(factor);
  }
  for (size_t factor = 7; rest > 1; factor += 2) {
    for (; rest % factor == 0; rest /= factor) factors_.push_back(factor);
  }
  column_.resize(factors_.empty() ? 1 : *std::max_element(factors_.begin(), factors_.end()));
}

void Fourier::Transform(std::span<const std::complex<float>> in,
                        std::span<std::complex<float>> out) {
  Step(in.data(), out.data(), size_, 1, 0);
}

/// Decimation in time: `factor` transforms of every factor-th element, then one small transform
/// across them for each frequency.
void Fourier::Step(const std::complex<float>* in, std::complex<float>* out, size_t size,
                   size_t stride, size_t level) {
  if (size == 1) {
    *out = *in;
    return;
  }
  const size_t factor = factors_[level], part = size / factor;
  for (size_t j = 0; j < factor; ++j) {
    Step(in + j * stride, out + j * part, part, stride * factor, level + 1);
  }
  for (size_t k = 0; k < part; ++k) {
    for (size_t j = 0; j < factor; ++j) {
      const std::complex<float> a = out[j * part + k], w = roots_[j * k * stride];
      column_[j] = {a.real() * w.real() - a.imag() * w.imag(),
                    a.real() * w.imag() + a.imag() * w.real()};
    }
    for (size_t q = 0; q < factor; ++q) {
      float real = 0, imaginary = 0;
      for (size_t j = 0; j < factor; ++j) {
        const std::complex<float> w = roots_[q * j % factor * (size_ / factor)];
        real += column_[j].real() * w.real() - column_[j].imag() * w.imag();
        imaginary += column_[j].real() * w.imag() + column_[j].imag() * w.real();
      }
      out[q * part + k] = {real, imaginary};
    }
  }
}

}  // namespace oort::media
