// SPDX-License-Identifier: MIT
#include "llm_quantize/smooth.h"

#include <algorithm>
#include <cmath>

namespace oort::llm_quantize {
namespace {

constexpr double kShares[] = {0, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8};  // 0: factors of 1
constexpr double kMostPower = 10;                                // of two, either way
constexpr int64_t kMostTokens = 1024;                            // that tell what is lost

/// Calls visit with rows of the inputs, evenly spread.
template <typename Visit>
void VisitInputs(const Tensor& inputs, const Visit& visit) {
  const int64_t rows = inputs.dim(0), columns = inputs.dim(1);
  const int64_t stride = std::max<int64_t>(1, rows / kMostTokens);
  for (int64_t row = 0; row < rows; row += stride) visit(inputs.data<float>() + row * columns);
}

template <typename Visit>
void VisitWeights(std::span<const StoredMatrix> matrices, const Visit& visit) {
  std::vector<float> values(static_cast<size_t>(matrices[0].columns));
  for (const StoredMatrix& matrix : matrices) {
    for (int64_t row = 0; row < matrix.rows; ++row) {
      ReadRows(matrix, row, row + 1, values.data());
      visit(values.data());
    }
  }
}

void KeepLargest(std::vector<float>& largest, const float* row) {
  for (size_t k = 0; k < largest.size(); ++k) largest[k] = std::max(largest[k], std::abs(row[k]));
}

/// Columns without inputs or weights keep theirs.
std::vector<float> SharedFactors(const std::vector<float>& inputs,
                                 const std::vector<float>& weights, double share) {
  std::vector<double> powers(inputs.size());
  double sum = 0;
  int64_t count = 0;
  const auto counts = [&](size_t k) { return share > 0 && inputs[k] > 0 && weights[k] > 0; };
  for (size_t k = 0; k < inputs.size(); ++k) {
    if (!counts(k)) continue;
    powers[k] = share * std::log2(inputs[k]) - (1 - share) * std::log2(weights[k]);
    sum += powers[k];
    ++count;
  }
  std::vector<float> factors(inputs.size(), 1.0F);
  for (size_t k = 0; k < factors.size(); ++k) {
    if (!counts(k)) continue;
    const double power = std::round(powers[k] - sum / static_cast<double>(count));
    factors[k] = std::ldexp(1.0F, static_cast<int>(std::clamp(power, -kMostPower, kMostPower)));
  }
  return factors;
}

/// Of rows times factors: what rounding a number adds to its square, of all rows, and the sum of
/// their squares.
struct RowErrors {
  double rounding = 0, squares = 0;

  void Add(const float* row, const std::vector<float>& factors, bool divides) {
    float largest = 0;
    double all = 0;
    for (size_t k = 0; k < factors.size(); ++k) {
      const float value = divides ? row[k] / factors[k] : row[k] * factors[k];
      largest = std::max(largest, std::abs(value));
      all += static_cast<double>(value) * static_cast<double>(value);
    }
    const double unit = static_cast<double>(largest) / 127;
    rounding += unit * unit / 12;
    squares += all;
  }
};

}  // namespace

std::vector<float> SmoothFactors(std::span<const StoredMatrix> matrices, const Tensor& inputs) {
  const auto columns = static_cast<size_t>(inputs.dim(1));
  std::vector<float> largest_input(columns), largest_weight(columns);
  VisitInputs(inputs, [&](const float* row) { KeepLargest(largest_input, row); });
  VisitWeights(matrices, [&](const float* row) { KeepLargest(largest_weight, row); });
  std::vector<std::vector<float>> tried;
  for (const double share : kShares) {
    tried.push_back(SharedFactors(largest_input, largest_weight, share));
  }
  std::vector<RowErrors> of_inputs(tried.size()), of_weights(tried.size());
  VisitInputs(inputs, [&](const float* row) {
    for (size_t i = 0; i < tried.size(); ++i) of_inputs[i].Add(row, tried[i], true);
  });
  VisitWeights(matrices, [&](const float* row) {
    for (size_t i = 0; i < tried.size(); ++i) of_weights[i].Add(row, tried[i], false);
  });
  size_t best = 0;
  double least = INFINITY;
  for (size_t i = 0; i < tried.size(); ++i) {
    const RowErrors &x = of_inputs[i], &w = of_weights[i];
    const double lost = x.rounding * w.squares + w.rounding * x.squares;
    if (lost >= least) continue;
    least = lost;
    best = i;
  }
  return tried[best];
}

}  // namespace oort::llm_quantize
