// SPDX-License-Identifier: MIT
#include "layers/linear/dense.h"

#include <algorithm>

#include "core/parallel.h"

namespace oort {
namespace {

/// Four sums at a time, so that one addition need not wait for the last.
double DenseDot(const double* a, const double* b, int64_t count) {
  double sums[4] = {};
  int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    for (int64_t lane = 0; lane < 4; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  for (; i < count; ++i) sums[0] += a[i] * b[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

}  // namespace

void MultiplyF64(int threads, int64_t rows, RowsOf<const double> x, RowsOf<const double> weight,
                 int64_t out, int64_t in, const double* bias, RowsOf<double> y) {
  if (rows == 0 || out == 0) return;
  const int64_t grain = 16384 / std::max<int64_t>(1, in) + 1;
  ParallelFor(threads, rows * out, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i / out, column = i % out;
      const double sum = DenseDot(x[row], weight[column], in);
      y[row][column] = bias != nullptr ? sum + bias[column] : sum;
    }
  });
}

}  // namespace oort
