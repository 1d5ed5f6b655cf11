// SPDX-License-Identifier: MIT
#include "llm_quantize/awq.h"

#include <algorithm>
#include <cmath>

#include "llm_quantize/gptq.h"
#include "llm_quantize/importance.h"

namespace oort::llm_quantize {
namespace {

constexpr int kPowers = 10;  // from 0 below 1

/// Powers of the root mean squares, whose largest and smallest are each other's inverse.
std::vector<float> FactorsOf(std::span<const float> weights, double power) {
  std::vector<double> factors;
  double most = 0, least = INFINITY;
  for (const float weight : weights) {
    factors.push_back(std::pow(static_cast<double>(weight), power / 2));
    most = std::max(most, factors.back());
    least = std::min(least, factors.back());
  }
  const double middle = std::sqrt(most * least);
  std::vector<float> scaled;
  for (const double factor : factors) scaled.push_back(static_cast<float>(factor / middle));
  return scaled;
}

}  // namespace

StoredMatrix ScaleColumns(const StoredMatrix& matrix, std::span<const float> factors) {
  StoredMatrix scaled =
      AllocateStored({WeightFormat::kF32, 1, DType::kF32}, matrix.rows, matrix.columns);
  float* values = scaled.data.data<float>();
  ReadRows(matrix, 0, matrix.rows, values);
  for (int64_t row = 0; row < matrix.rows; ++row) {
    for (const float factor : factors) *values++ *= factor;
  }
  return scaled;
}

std::vector<float> AwqFactors(std::span<const StoredMatrix> matrices, const QuantizeOptions& target,
                              std::span<const float> mean_squares, int threads) {
  const std::vector<float> weights = ErrorWeights({{mean_squares.begin(), mean_squares.end()}, 1});
  std::vector<float> best(weights.size(), 1);
  double least = INFINITY;
  for (int step = 0; step < kPowers; ++step) {
    const std::vector<float> factors = FactorsOf(weights, static_cast<double>(step) / kPowers);
    // What is made larger here is made smaller in the inputs.
    std::vector<float> left = weights;
    for (size_t k = 0; k < left.size(); ++k) left[k] /= factors[k] * factors[k];
    double lost = 0;
    for (const StoredMatrix& matrix : matrices) {
      const StoredMatrix scaled = ScaleColumns(matrix, factors);
      const RoundedMatrix rounded = RoundToNearest(scaled, target, left, threads);
      lost += rounded.relative_error * static_cast<double>(matrix.rows);
    }
    if (lost >= least) continue;
    least = lost;
    best = factors;
  }
  return best;
}

}  // namespace oort::llm_quantize
