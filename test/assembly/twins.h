// SPDX-License-Identifier: MIT
// What the tests of kernels in assembly share: numbers, and the kernels' twins in intrinsics.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <type_traits>
#include <vector>

#include "cpu/gemm.h"
#include "layers/convolution/direct/direct_conv_kernels.h"
#include "layers/convolution/winograd/winograd_kernels.h"
#include "layers/quantize/integer_kernels.h"
#include "layers/quantized_linear/cpu/nibble_rows.h"
#include "layers/quantized_linear/cpu/quantized_kernels.h"
#include "layers/quantized_linear/cpu/row_pairs.h"
#include "oort/dtype.h"

// The same sources as the library's, compiled without assembly (target.cmake), and the library's.
#define OORT_TEST_GETTER(unit, table, type) \
  namespace oort::unit {                    \
  const type& table##Get();                 \
  }                                         \
  namespace oort::unit##_twin {             \
    const type& table##Get();               \
  }
OORT_TEST_GETTER(neon, GemmKernels, GemmKernels)
OORT_TEST_GETTER(neon_bf16, GemmKernels, GemmKernels)
OORT_TEST_GETTER(neon, DirectConvKernels, DirectConvKernelsOf<float>)
OORT_TEST_GETTER(neon_f16, DirectConvKernels, DirectConvKernelsOf<Half>)
OORT_TEST_GETTER(neon, WinogradKernels, WinogradKernelsOf<float>)
OORT_TEST_GETTER(neon_f16, WinogradKernels, WinogradKernelsOf<Half>)
OORT_TEST_GETTER(neon_dot, QuantizedDotKernels, QuantizedDotKernels)
OORT_TEST_GETTER(neon_i8mm, NibbleKernels, NibbleKernels)
OORT_TEST_GETTER(neon_dot, IntegerKernels, IntegerKernels)
OORT_TEST_GETTER(neon_i8mm, IntegerKernels, IntegerKernels)
OORT_TEST_GETTER(neon_i8mm, PairKernels, PairKernels)
#undef OORT_TEST_GETTER

namespace oort::assembly_test {

/// Numbers that are the same on every machine.
class Numbers {
 public:
  explicit Numbers(uint32_t seed) : random_(seed) {}
  int64_t Whole(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random_() % static_cast<uint64_t>(high - low + 1));
  }
  float Real() { return static_cast<float>(Whole(-4096, 4096)) / 4096; }
  template <typename T>
  std::vector<T> Reals(int64_t count) {
    std::vector<T> all(static_cast<size_t>(count));
    for (T& x : all) x = T(Real());
    return all;
  }
  template <typename T>
  std::vector<T> Wholes(int64_t count, int64_t low, int64_t high) {
    std::vector<T> all(static_cast<size_t>(count));
    for (T& x : all) x = static_cast<T>(Whole(low, high));
    return all;
  }

 private:
  std::mt19937 random_;
};

/// Bit by bit, with what the kernels must not touch.
template <typename T>
bool Same(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

}  // namespace oort::assembly_test
