// SPDX-License-Identifier: MIT
// Division by a number that all threads share. For .cu files.
#pragma once

#include <cstdint>

namespace oort::cuda {

/// Divides numbers below 2^31 by a multiplication and a shift (Granlund and Montgomery 1994).
struct Divider {
  unsigned divisor = 1, factor = 0, shift = 0;

  Divider() = default;
  /// `value` from 1 to 2^31 - 1.
  explicit Divider(unsigned value) : divisor(value) {
    while (shift < 31 && (1u << shift) < value) ++shift;
    const uint64_t one = 1;
    factor = static_cast<unsigned>(((one << 32) * ((one << shift) - value)) / value + 1);
  }

#ifdef __CUDACC__
  __device__ unsigned Divide(unsigned number) const {
    return (__umulhi(number, factor) + number) >> shift;
  }
  __device__ unsigned Divide(unsigned number, unsigned* rest) const {
    const unsigned quotient = Divide(number);
    *rest = number - quotient * divisor;
    return quotient;
  }
#endif
};

}  // namespace oort::cuda
