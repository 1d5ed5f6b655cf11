// SPDX-License-Identifier: MIT
#pragma once

#include <complex>
#include <span>
#include <vector>

namespace oort::media {

/// Discrete Fourier transforms of one size, which may be any; products of small primes are fast.
/// Thread contract: one thread at a time.
class Fourier {
 public:
  explicit Fourier(size_t size);
  /// Both spans have `size` elements and do not overlap.
  void Transform(std::span<const std::complex<float>> in, std::span<std::complex<float>> out);

 private:
  void Step(const std::complex<float>* in, std::complex<float>* out, size_t size, size_t stride,
            size_t level);
  size_t size_;
  std::vector<size_t> factors_;
  std::vector<std::complex<float>> roots_;  // e^(-2 pi i k / size)
  std::vector<std::complex<float>> column_;
};

}  // namespace oort::media
