// SPDX-License-Identifier: MIT
#pragma once

#include "cpu/activation.h"
#include "cpu/kernels.h"

namespace oort {

/// Output pixels of a convolution times a panel of filters. What pixel r reads at a tap are the
/// `depth` floats at rows[tap * kernels.rows + r].
struct RowTile {
  const float* const* rows = nullptr;
  int64_t taps = 0, depth = 0;
  const float* weights = nullptr;  ///< taps * depth rows of kernels.columns floats
  const float* bias = nullptr;     ///< kernels.columns floats
  const float* addend = nullptr;   ///< of the shape of the output, or null
  int64_t addend_stride = 0;
  float* out = nullptr;
  int64_t out_stride = 0;
  bool clamp = false;
  float low = 0, high = 0;
};

struct RowConvKernels {
  int rows, columns;
  /// A tile of which only the first `used_rows` and `used_columns` are wanted; the pointers of the
  /// other rows must be readable as well. `activation` makes the limits of `tile` itself.
  void (*tile)(RowTile tile, int used_rows, int used_columns, const ActivationSpec& activation);
};
OORT_DECLARE_KERNELS(RowConvKernels)

}  // namespace oort
