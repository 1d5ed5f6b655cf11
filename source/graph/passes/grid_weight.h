// SPDX-License-Identifier: MIT
// Weights that were rounded to multiples of a scale, as fake quantization leaves them when its
// operator was folded: f32, but no more than 8 bits for each slice of the first axis.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>

#include "oort/tensor.h"

namespace oort {

struct GridWeight {
  Tensor integers;  ///< i8, from -127 to 127
  Tensor scales;    ///< f32, one for each slice of axis 0
};

/// Whether all numbers are multiples of the largest one over `most`, but for roundings of f32;
/// writes the multiples.
inline bool AreMultiples(const float* x, int64_t count, float largest, int most,
                         int8_t* multiples) {
  const double step = static_cast<double>(largest) / most;
  for (int64_t i = 0; i < count; ++i) {
    const double steps = static_cast<double>(x[i]) / step, nearest = std::nearbyint(steps);
    if (!(std::abs(steps - nearest) <= 4e-7 * std::abs(nearest))) return false;
    multiples[i] = static_cast<int8_t>(nearest);
  }
  return true;
}

/// The integers behind weights of rank 2 or more; nothing where a slice is no multiple of a scale.
/// Slices of few numbers nearly always are, of one that may not be torch's; they mean the same.
inline std::optional<GridWeight> ReadGridWeight(const Tensor& weight) {
  if (weight.dtype() != DType::kF32 || !weight.has_data() || weight.rank() < 2 ||
      weight.elements() == 0) {
    return {};
  }
  const int64_t slices = weight.dim(0), each = weight.elements() / slices;
  GridWeight grid{Tensor(DType::kI8, weight.shape()), Tensor(DType::kF32, {slices})};
  for (int64_t slice = 0; slice < slices; ++slice) {
    const float* x = weight.data<float>() + slice * each;
    float largest = 0;
    for (int64_t i = 0; i < each; ++i) {
      if (!std::isfinite(x[i])) return {};
      largest = std::fmax(largest, std::abs(x[i]));
    }
    int8_t* integers = grid.integers.data<int8_t>() + slice * each;
    float scale = largest / 127;
    if (!(std::isfinite(1.0f / scale))) {  // zeros, or too small to be divided by
      if (largest != 0) return {};
      std::fill_n(integers, each, int8_t{0});
      scale = 1;
    } else {
      int most = 127;
      while (most > 0 && !AreMultiples(x, each, largest, most, integers)) --most;
      if (most == 0) return {};
      scale = largest / static_cast<float>(most);
    }
    grid.scales.data<float>()[slice] = scale;
  }
  return grid;
}

}  // namespace oort
