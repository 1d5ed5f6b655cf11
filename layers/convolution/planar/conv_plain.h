// SPDX-License-Identifier: MIT
// Convolutions in f64, complex numbers and integers: plain loops.
#pragma once

#include <algorithm>

#include "core/wrapping.h"
#include "layers/convolution/conv_geometry.h"

namespace oort {

LayerCreator CreateConvPlain(int spatial_rank);
LayerCreator CreateConvTransposePlain(int spatial_rank);

/// Row r of `out` = bias[r] + the sum over k of weight(r, k) times row k of `columns`, where
/// weight(r, k) = weight[r * row_step + k * step]; bias may be null. All rows have `n` elements.
template <typename T>
struct WeightedRows {
  const T* weight = nullptr;
  int64_t row_step = 0, step = 1;
  int64_t rows = 0, k = 0, n = 0;
  const T* bias = nullptr;
};

template <typename T>
void SumRows(const Context& context, const WeightedRows<T>& sum, const T* columns, T* out) {
  using U = Wrapping<T>;
  const int64_t work = std::max<int64_t>(1, sum.k * sum.n);
  context.ParallelFor(sum.rows, 16384 / work + 1, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      T* row = out + r * sum.n;
      std::fill_n(row, sum.n, sum.bias != nullptr ? sum.bias[r] : T{0});
      for (int64_t k = 0; k < sum.k; ++k) {
        const U weight = static_cast<U>(sum.weight[r * sum.row_step + k * sum.step]);
        const T* column = columns + k * sum.n;
        for (int64_t i = 0; i < sum.n; ++i) {
          row[i] = static_cast<T>(static_cast<U>(row[i]) + weight * static_cast<U>(column[i]));
        }
      }
    }
  });
}

}  // namespace oort
