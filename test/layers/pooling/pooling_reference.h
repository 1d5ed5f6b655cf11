// SPDX-License-Identifier: MIT
// Pooling by the definition: every window lists what lies under it.
#pragma once

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "oort/testing.h"

namespace oort::testing {

/// One value for each spatial axis.
struct PoolSpec {
  std::vector<int64_t> kernel, stride, pad, dilation;
  bool ceil_mode = false;

  int rank() const { return static_cast<int>(kernel.size()); }
  static std::string Text(const std::vector<int64_t>& values) { return Shape(values).ToString(); }
  /// The parameters that all pooling operators share.
  OperatorCase Case(const std::string& prefix) const {
    return OperatorCase(prefix + std::to_string(rank()) + "d")
        .Param("kernel_size", Text(kernel))
        .Param("stride", Text(stride))
        .Param("padding", Text(pad))
        .Param("ceil_mode", ceil_mode ? "True" : "False");
  }
};

/// The same in every axis.
inline PoolSpec Uniform(int rank, int64_t kernel, int64_t stride, int64_t pad, int64_t dilation = 1,
                        bool ceil_mode = false) {
  const auto all = [rank](int64_t value) {
    return std::vector<int64_t>(static_cast<size_t>(rank), value);
  };
  return {all(kernel), all(stride), all(pad), all(dilation), ceil_mode};
}

struct PoolWindow {
  std::vector<double> values;
  std::vector<int64_t> indices;  ///< in the plane
  int64_t padded = 1;            ///< elements with the padding, without what lies beyond it
};

/// Position of the maximum in the window: the first one, but the last NaN, as in torch.
inline size_t Best(const PoolWindow& window) {
  size_t best = 0;
  for (size_t i = 0; i < window.values.size(); ++i) {
    if (std::isnan(window.values[i]) || window.values[i] > window.values[best]) best = i;
  }
  return best;
}

/// Counts windows one by one: they must fit or, with ceil_mode, start in the input or before it.
inline int64_t CountWindows(int64_t in, int64_t kernel, int64_t stride, int64_t pad,
                            int64_t dilation, bool ceil_mode) {
  const int64_t spread = dilation * (kernel - 1) + 1, end = in + 2 * pad;
  for (int64_t i = 0;; ++i) {
    const bool fits = i * stride + spread <= end;
    const bool something_left = i == 0 ? spread - stride < end : (i - 1) * stride + spread < end;
    if (!fits && !(ceil_mode && something_left && i * stride < in + pad)) return i;
  }
}

/// What `fold` makes of each window; dtype f64, or i64 if `Number` is int64_t.
template <typename Number = double>
Tensor Pooled(const Tensor& x, const PoolSpec& spec,
              const std::function<Number(const PoolWindow&)>& fold) {
  const int rank = spec.rank(), skip = x.rank() - rank;
  Shape out_shape = x.shape();
  std::vector<int64_t> in(3, 1), out(3, 1), kernel(3, 1), stride(3, 1), pad(3, 0), dilation(3, 1);
  for (int i = 0; i < rank; ++i) {
    const size_t a = static_cast<size_t>(3 - rank + i), b = static_cast<size_t>(i);
    in[a] = x.shape()[skip + i];
    kernel[a] = spec.kernel[b];
    stride[a] = spec.stride[b];
    pad[a] = spec.pad[b];
    dilation[a] = spec.dilation[b];
    out[a] = CountWindows(in[a], kernel[a], stride[a], pad[a], dilation[a], spec.ceil_mode);
    out_shape[skip + i] = out[a];
  }
  const int64_t planes = x.shape().Product(0, skip), area = in[0] * in[1] * in[2];
  Tensor y(kDTypeOf<Number>, out_shape);
  Number* to = y.data<Number>();
  for (int64_t p = 0; p < planes; ++p) {
    for (int64_t o = 0; o < out[0] * out[1] * out[2]; ++o) {
      const int64_t at[3] = {o / (out[1] * out[2]), o / out[2] % out[1], o % out[2]};
      PoolWindow window;
      int64_t start[3];
      for (size_t i = 0; i < 3; ++i) {
        start[i] = at[i] * stride[i] - pad[i];
        window.padded *= std::min(start[i] + kernel[i], in[i] + pad[i]) - start[i];
      }
      for (int64_t k = 0; k < kernel[0] * kernel[1] * kernel[2]; ++k) {
        const int64_t tap[3] = {k / (kernel[1] * kernel[2]), k / kernel[2] % kernel[1],
                                k % kernel[2]};
        int64_t index = 0;
        bool inside = true;
        for (size_t i = 0; i < 3; ++i) {
          const int64_t where = start[i] + tap[i] * dilation[i];
          inside = inside && where >= 0 && where < in[i];
          index = index * in[i] + where;
        }
        if (!inside) continue;
        window.values.push_back(x.data<double>()[p * area + index]);
        window.indices.push_back(index);
      }
      *to++ = fold(window);
    }
  }
  return y;
}

}  // namespace oort::testing
