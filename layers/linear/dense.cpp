// SPDX-License-Identifier: MIT
#include "layers/linear/dense.h"

#include <algorithm>
#include <complex>

#include "core/parallel.h"
#include "core/wrapping.h"
#include "layers/linear/blas_product.h"

namespace oort {
namespace {

/// Four sums at a time, so that one addition need not wait for the last.
template <typename T>
Wrapping<T> DenseDot(const T* a, const T* b, int64_t count) {
  using U = Wrapping<T>;
  const auto product = [&](int64_t i) { return static_cast<U>(a[i]) * static_cast<U>(b[i]); };
  U sums[4] = {};
  int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    for (int64_t lane = 0; lane < 4; ++lane) sums[lane] += product(i + lane);
  }
  for (; i < count; ++i) sums[0] += product(i);
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/// Whether BLAS has computed it.
template <typename T>
bool MultiplyByBlas(int threads, int64_t rows, RowsOf<const T> x, RowsOf<const T> weight,
                    int64_t out, int64_t in, const T* bias, RowsOf<T> y) {
  const BlasProduct<T> blas{.m = rows,
                            .n = out,
                            .k = in,
                            .a_step = x.step,
                            .b_step = weight.step,
                            .c_step = y.step,
                            .b_transposed = true,
                            .accumulate = bias != nullptr};
  if (!blas.IsWorthIt()) return false;
  for (int64_t row = 0; bias != nullptr && row < rows; ++row) std::copy_n(bias, out, y[row]);
  blas.Run(threads, [&](int64_t) -> typename BlasProduct<T>::Operands {
    return {x.data, weight.data, y.data};
  });
  return true;
}

}  // namespace

template <typename T>
void MultiplyPlain(int threads, int64_t rows, RowsOf<const T> x, RowsOf<const T> weight,
                   int64_t out, int64_t in, const T* bias, RowsOf<T> y) {
  if (rows == 0 || out == 0) return;
  if constexpr (kHasBlasProduct<T>) {
    if (MultiplyByBlas(threads, rows, x, weight, out, in, bias, y)) return;
  }
  const int64_t grain = 16384 / std::max<int64_t>(1, in) + 1;
  ParallelFor(threads, rows * out, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i / out, column = i % out;
      Wrapping<T> sum = DenseDot(x[row], weight[column], in);
      if (bias != nullptr) sum += static_cast<Wrapping<T>>(bias[column]);
      y[row][column] = static_cast<T>(sum);
    }
  });
}

#define OORT_MULTIPLY_PLAIN(T)                                                                     \
  template void MultiplyPlain<T>(int, int64_t, RowsOf<const T>, RowsOf<const T>, int64_t, int64_t, \
                                 const T*, RowsOf<T>);
OORT_MULTIPLY_PLAIN(double)
OORT_MULTIPLY_PLAIN(std::complex<float>)
OORT_MULTIPLY_PLAIN(std::complex<double>)
OORT_MULTIPLY_PLAIN(int8_t)
OORT_MULTIPLY_PLAIN(uint8_t)
OORT_MULTIPLY_PLAIN(int16_t)
OORT_MULTIPLY_PLAIN(int32_t)
OORT_MULTIPLY_PLAIN(int64_t)
#undef OORT_MULTIPLY_PLAIN

}  // namespace oort
