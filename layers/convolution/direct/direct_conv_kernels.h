// SPDX-License-Identifier: MIT
#pragma once

#include "cpu/activation.h"
#include "cpu/lanes_kernels.h"

namespace oort {

/// Neighbouring output pixels times neighbouring panels of filters. At a tap, pixel r of a tile
/// reads the `depth` elements at rows[(tile * taps + tap) * kernels.rows + r]. In f32 these rows
/// must be readable up to a multiple of four elements; the values there do not matter.
template <typename T>
struct RowBlockOf {
  const T* const* rows = nullptr;
  int64_t pixels = 0;  ///< that are wanted; `rows` holds two more tiles, which are readable
  int64_t taps = 0, depth = 0;
  /// Panel by panel taps * depth rows of kernels.columns elements. The last panel of the filters
  /// may be narrower: kernels.PanelWidth().
  const T* weights = nullptr;
  const T* bias = nullptr;    ///< as many as a row of all panels has
  int64_t columns = 0;        ///< that are wanted
  const T* addend = nullptr;  ///< of the shape of the output, or null
  T* out = nullptr;
  int64_t stride = 0;  ///< between pixels of the output and of the addend
  ActivationSpec activation;
};

template <typename T>
struct DirectConvKernelsOf {
  int rows, columns;
  int granule;  ///< a last panel is some of these wide
  void (*block)(const RowBlockOf<T>& block);

  /// Of a panel of which `left` columns are wanted.
  int64_t PanelWidth(int64_t left) const {
    return left >= columns ? columns : (left + granule - 1) / granule * granule;
  }
};
using RowBlock = RowBlockOf<float>;
using DirectConvKernels = DirectConvKernelsOf<float>;
OORT_DECLARE_LANES_KERNELS(DirectConvKernels)

}  // namespace oort
