// SPDX-License-Identifier: MIT
#pragma once

#include "oort/testing.h"

namespace oort::testing {

/// One (m,k) by (k,n) product in double precision, added to `out`.
inline void MultiplyInto(const double* a, const double* b, int64_t m, int64_t n, int64_t k,
                         double* out) {
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t p = 0; p < k; ++p) sum += a[i * k + p] * b[p * n + j];
      out[i * n + j] = sum;
    }
  }
}

/// Stacks whose leading axes are already equal or missing on one side.
inline Tensor ProductReference(const Tensor& a, const Tensor& b, Shape output, int64_t m, int64_t n,
                               int64_t k) {
  Tensor result(DType::kF64, output);
  const int64_t count = m * n == 0 ? 0 : result.elements() / (m * n);
  const int64_t a_count = m * k == 0 ? 1 : a.elements() / (m * k);
  const int64_t b_count = n * k == 0 ? 1 : b.elements() / (n * k);
  for (int64_t i = 0; i < count; ++i) {
    MultiplyInto(a.data<double>() + i % a_count * m * k, b.data<double>() + i % b_count * k * n, m,
                 n, k, result.data<double>() + i * m * n);
  }
  return result;
}

}  // namespace oort::testing
