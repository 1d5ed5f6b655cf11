// SPDX-License-Identifier: MIT
// Adaptive pooling by the definition; the windows are found with exact fractions.
#pragma once

#include "pooling_reference.h"

namespace oort::testing {

/// Output i of n covers every input that overlaps [i/n, (i+1)/n) of the axis; 0 keeps the extent.
inline std::vector<int64_t> AdaptiveInputs(int64_t in, int64_t out, int64_t i) {
  std::vector<int64_t> inputs;
  for (int64_t j = 0; j < in; ++j) {
    // [j, j + 1) / in overlaps [i, i + 1) / out
    if (j * out < (i + 1) * in && (j + 1) * out > i * in) inputs.push_back(j);
  }
  return inputs;
}

template <typename Number = double>
Tensor AdaptivePooled(const Tensor& x, std::vector<int64_t> sizes,
                      const std::function<Number(const PoolWindow&)>& fold) {
  const int rank = static_cast<int>(sizes.size()), skip = x.rank() - rank;
  Shape out_shape = x.shape();
  std::vector<int64_t> in(3, 1), out(3, 1);
  for (int i = 0; i < rank; ++i) {
    const size_t a = static_cast<size_t>(3 - rank + i);
    in[a] = x.shape()[skip + i];
    out[a] = sizes[static_cast<size_t>(i)] == 0 ? in[a] : sizes[static_cast<size_t>(i)];
    out_shape[skip + i] = out[a];
  }
  const int64_t planes = x.shape().Product(0, skip), area = in[0] * in[1] * in[2];
  Tensor y(kDTypeOf<Number>, out_shape);
  Number* to = y.data<Number>();
  for (int64_t p = 0; p < planes; ++p) {
    for (int64_t o = 0; o < out[0] * out[1] * out[2]; ++o) {
      PoolWindow window;
      for (int64_t d : AdaptiveInputs(in[0], out[0], o / (out[1] * out[2]))) {
        for (int64_t h : AdaptiveInputs(in[1], out[1], o / out[2] % out[1])) {
          for (int64_t w : AdaptiveInputs(in[2], out[2], o % out[2])) {
            const int64_t index = (d * in[1] + h) * in[2] + w;
            window.values.push_back(x.data<double>()[p * area + index]);
            window.indices.push_back(index);
          }
        }
      }
      *to++ = fold(window);
    }
  }
  return y;
}

}  // namespace oort::testing
