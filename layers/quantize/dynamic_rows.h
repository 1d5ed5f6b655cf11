// SPDX-License-Identifier: MIT
// Rows of numbers as bytes whose scale each row has of its own, found while the network runs.
#pragma once

#include <cstdint>

#include "core/activation.h"
#include "cpu/kernels.h"

namespace oort {

struct RowRange {
  float low, high;  ///< the least and the greatest number; 0 lies between
};

struct DynamicKernels {
  /// What is no number does not count.
  RowRange (*range)(const float* x, int64_t count);
  /// y[i] = (products[i] - zero_point * sums[i]) * scale + bias[i], each at most two roundings.
  /// Both may be the same row.
  void (*finish)(const float* products, int64_t count, float scale, float zero_point,
                 const float* sums, const float* bias, float* y);
  /// y[i] = round(y[i] * inverse), within [least, most], times scale: without its zero point, to
  /// which the limits are relative. What is no number becomes 0.
  void (*round)(const float* x, int64_t count, float inverse, float scale, float least, float most,
                float* y);
  void (*activate)(const ActivationSpec& spec, float* y, int count);
};
OORT_DECLARE_KERNELS(DynamicKernels)

/// The scale and the zero point of one row. Bytes are counted from -127 to 127 where it is
/// symmetric, else from 0 to 255; a row of zeros has the scale 1.
struct RowQuantizer {
  float scale = 1;
  int32_t zero_point = 0;
  int32_t least = 0, most = 255;
};
RowQuantizer QuantizerOfRow(const RowRange& range, bool symmetric);

}  // namespace oort
