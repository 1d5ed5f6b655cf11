// SPDX-License-Identifier: MIT
// Products of f64 and complex matrices by BLAS. With OpenBLAS they take a tenth of the time that
// plain loops take, from about 32x32x32 on; f32 has kernels of its own, which are faster.
#pragma once

#include <complex>
#include <type_traits>

#include "core/parallel.h"

namespace oort {

template <typename T>
inline constexpr bool kHasBlasProduct =
    std::is_same_v<T, double> || std::is_same_v<T, std::complex<float>> ||
    std::is_same_v<T, std::complex<double>>;

/// C = A B for `count` triples of row-major matrices: A is m by k, B k by n, C m by n.
template <typename T>
struct BlasProduct {
  int64_t m = 0, n = 0, k = 0, count = 1;
  int64_t a_step = 0, b_step = 0, c_step = 0;  ///< from one row to the next
  bool b_transposed = false;                   ///< B stands as n by k
  bool accumulate = false;                     ///< C += A B

  /// Whether BLAS is there, takes these extents and is the faster way.
  bool IsWorthIt() const;

  struct Operands {
    const T *a, *b;
    T* c;
  };
  /// operands(i) tells where the matrices of product i are. The pieces that threads take do not
  /// depend on their number, nor do the sums.
  void Run(int threads, FunctionRef<Operands(int64_t i)> operands) const;
};

}  // namespace oort
