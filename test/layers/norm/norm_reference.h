// SPDX-License-Identifier: MIT
// Normalization by the definition, in f64.
#pragma once

#include <cmath>
#include <functional>
#include <map>

#include "oort/testing.h"

namespace oort::testing {

/// `group(i)` says which elements share their statistics, `weight(i)` and `bias(i)` come after.
inline Tensor Normalized(const Tensor& x, double eps, const std::function<int64_t(int64_t)>& group,
                         const std::function<double(int64_t)>& weight = nullptr,
                         const std::function<double(int64_t)>& bias = nullptr) {
  struct Statistics {
    double count = 0, mean = 0, variance = 0;
  };
  std::map<int64_t, Statistics> groups;
  const double* values = x.data<double>();
  for (int64_t i = 0; i < x.elements(); ++i) {
    Statistics& all = groups[group(i)];
    all.count += 1;
    all.mean += values[i];
  }
  for (auto& [key, all] : groups) all.mean /= all.count;
  for (int64_t i = 0; i < x.elements(); ++i) {
    Statistics& all = groups[group(i)];
    const double difference = values[i] - all.mean;
    all.variance += difference * difference / all.count;
  }
  Tensor y(DType::kF64, x.shape());
  for (int64_t i = 0; i < x.elements(); ++i) {
    const Statistics& all = groups[group(i)];
    const double normal = (values[i] - all.mean) / std::sqrt(all.variance + eps);
    y.data<double>()[i] = normal * (weight ? weight(i) : 1) + (bias ? bias(i) : 0);
  }
  return y;
}

/// Channel of element i of a tensor whose axis 1 (or 0) holds channels.
inline int64_t ChannelOf(const Shape& shape, int64_t i, int axis = 1) {
  return i / shape.Product(axis + 1, shape.rank()) % shape[axis];
}

/// Looks up element i of an f32 tensor.
inline std::function<double(int64_t)> ByIndex(const Tensor& weights,
                                              const std::function<int64_t(int64_t)>& index) {
  return [=](int64_t i) { return weights.To(DType::kF64).data<double>()[index(i)]; };
}

}  // namespace oort::testing
