// SPDX-License-Identifier: MIT
// Convolutions in f64: plain loops, for networks that ask for digits rather than speed.
#pragma once

#include "layers/convolution/conv_geometry.h"

namespace oort {

LayerCreator CreateConvF64(int spatial_rank);
LayerCreator CreateConvTransposeF64(int spatial_rank);

/// Row r of `out` = bias[r] + the sum over k of weight(r, k) times row k of `columns`, where
/// weight(r, k) = weight[r * row_step + k * step]; bias may be null. All rows have `n` elements.
struct WeightedRows {
  const double* weight = nullptr;
  int64_t row_step = 0, step = 1;
  int64_t rows = 0, k = 0, n = 0;
  const double* bias = nullptr;
};
void SumRows(const Context& context, const WeightedRows& sum, const double* columns, double* out);

}  // namespace oort
