// SPDX-License-Identifier: MIT
// Attention in double precision, written out as sums.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "oort/testing.h"

namespace oort::testing {

inline constexpr double kInf = std::numeric_limits<double>::infinity();

/// What is added to the score of key s for query l of matrix i.
using MaskFunction = std::function<double(int64_t i, int64_t l, int64_t s)>;

struct Sizes {
  int64_t count, queries, keys, dim, value_dim;
};

/// Dense (count,L,D), (count,S,D) and (count,S,V) in double precision. `weights` gets the softmax.
inline std::vector<double> Attend(const Sizes& n, const double* q, const double* k, const double* v,
                                  double scale, const MaskFunction& mask,
                                  std::vector<double>* weights = nullptr) {
  std::vector<double> out;
  for (int64_t i = 0; i < n.count; ++i) {
    for (int64_t l = 0; l < n.queries; ++l) {
      std::vector<double> scores;
      double max = -kInf, sum = 0;
      for (int64_t s = 0; s < n.keys; ++s) {
        double score = 0;
        for (int64_t d = 0; d < n.dim; ++d) {
          score += q[(i * n.queries + l) * n.dim + d] * k[(i * n.keys + s) * n.dim + d];
        }
        scores.push_back(score * scale + (mask ? mask(i, l, s) : 0.0));
        max = std::max(max, scores.back());
      }
      for (double& score : scores) sum += score = std::exp(score - max);
      for (double& score : scores) score /= sum;
      if (weights != nullptr) weights->insert(weights->end(), scores.begin(), scores.end());
      for (int64_t d = 0; d < n.value_dim; ++d) {
        double value = 0;
        for (int64_t s = 0; s < n.keys; ++s) {
          value += scores[static_cast<size_t>(s)] * v[(i * n.keys + s) * n.value_dim + d];
        }
        out.push_back(value);
      }
    }
  }
  return out;
}

inline Tensor ToF32(const std::vector<double>& values, Shape shape) {
  return Tensor::From<double>(std::span<const double>(values), shape).To(DType::kF32);
}

}  // namespace oort::testing
