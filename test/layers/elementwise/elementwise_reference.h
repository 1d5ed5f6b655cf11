// SPDX-License-Identifier: MIT
// Plain references for elementwise operators.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "oort/testing.h"

namespace oort::testing {

/// f of each element, in f64.
inline OperatorCase::Reference Elementwise(std::function<double(double)> f) {
  return [f = std::move(f)](const std::vector<Tensor>& inputs) {
    Tensor result(DType::kF64, inputs[0].shape());
    const Tensor x = inputs[0].To(DType::kF64);
    for (int64_t i = 0; i < x.elements(); ++i) {
      result.data<double>()[i] = f(x.data<double>()[i]);
    }
    return std::vector<Tensor>{result};
  };
}

/// The element of `tensor` that meets element `index` of shape `out` when it is broadcast.
inline double BroadcastElement(const Tensor& tensor, const Shape& out, int64_t index) {
  int64_t position = 0, stride = 1;
  for (int axis = out.rank() - 1; axis >= 0; --axis) {
    const int64_t coordinate = index % out[axis];
    index /= out[axis];
    const int own = axis - (out.rank() - tensor.rank());
    if (own < 0) continue;
    if (tensor.shape()[own] != 1) position += coordinate * stride;
    stride *= tensor.shape()[own];
  }
  return tensor.To(DType::kF64).data<double>()[position];
}

/// f of each pair of elements that meet, in f64.
inline OperatorCase::Reference Elementwise2(std::function<double(double, double)> f) {
  return [f = std::move(f)](const std::vector<Tensor>& inputs) {
    const Shape shape = BroadcastShapes(inputs[0].shape(), inputs[1].shape());
    Tensor result(DType::kF64, shape);
    for (int64_t i = 0; i < result.elements(); ++i) {
      result.data<double>()[i] =
          f(BroadcastElement(inputs[0], shape, i), BroadcastElement(inputs[1], shape, i));
    }
    return std::vector<Tensor>{result};
  };
}

inline OperatorCase Expression(const std::string& text) {
  return OperatorCase("pnnx.Expression").Param("expr", text);
}

}  // namespace oort::testing
