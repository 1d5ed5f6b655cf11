// SPDX-License-Identifier: MIT
#include "llm_quantize/gptq.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/parallel.h"
#include "llm_quantize/hessian.h"

namespace oort::llm_quantize {
namespace {

constexpr int64_t kRowsTogether = 16;     // that read the factor once
constexpr int64_t kColumnsTogether = 64;  // whose errors reach the columns behind them at once

size_t Product(int64_t a, int64_t b) { return static_cast<size_t>(a * b); }

/// Errors over rows [0, rows), summed in the order of the rows.
struct Errors {
  std::vector<double> lost, all;

  explicit Errors(int64_t rows) : lost(Product(rows, 1)), all(Product(rows, 1)) {}
  double Relative() const {
    const double whole = std::accumulate(all.begin(), all.end(), 0.0);
    return whole > 0 ? std::accumulate(lost.begin(), lost.end(), 0.0) / whole : 0;
  }
};

void RequireFiniteRows(std::span<const float> values) {
  for (const float value : values) {
    if (std::isfinite(value)) continue;
    throw Error(ErrorCode::kInvalidArgument, "a weight is " + std::to_string(value) +
                                                 ": such a matrix cannot be stored in fewer bits");
  }
}

/// What codes stand for, minus what they stand in for.
void Differences(std::span<const float> row, const RowGrid& fit, const WeightGrid& grid,
                 std::span<const int8_t> codes, std::span<float> to) {
  for (size_t k = 0; k < row.size(); ++k) {
    const GroupFit& group = fit.groups[k / static_cast<size_t>(grid.group())];
    // Codes of 8 bits without a sign are stored as if they had one.
    const int code = grid.codes().most > 127 ? static_cast<uint8_t>(codes[k]) : codes[k];
    to[k] = group.scale * static_cast<float>(code) + group.minimum - row[k];
  }
}

}  // namespace

GptqRounder::GptqRounder(const std::vector<double>& hessian, int64_t size,
                         const GptqOptions& options)
    : size_(size), options_(options), order_(Product(size, 1)) {
  std::iota(order_.begin(), order_.end(), 0);
  const auto diagonal = [&](int64_t k) { return hessian[Product(k, size + 1)]; };
  if (options.act_order) {
    std::ranges::stable_sort(order_,
                             [&](int64_t a, int64_t b) { return diagonal(a) > diagonal(b); });
  }
  std::vector<double> permuted(hessian.size());
  for (int64_t i = 0; i < size; ++i) {
    for (int64_t j = 0; j < size; ++j) {
      permuted[static_cast<size_t>(i * size + j)] =
          hessian[static_cast<size_t>(order_[Product(i, 1)] * size + order_[Product(j, 1)])];
    }
  }
  factor_ = InverseFactor(std::move(permuted), size, options.damping, options.threads);
  hessian_.assign(hessian.begin(), hessian.end());
}

void GptqRounder::Sweep(std::span<float> weights, std::span<const RowGrid> grids,
                        const WeightGrid& grid, std::span<int8_t> codes) const {
  const auto rows = static_cast<int64_t>(grids.size());
  std::vector<float> left(weights.size()), errors(Product(rows, kColumnsTogether));
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t k = 0; k < size_; ++k) {
      left[static_cast<size_t>(row * size_ + k)] =
          weights[static_cast<size_t>(row * size_ + order_[Product(k, 1)])];
    }
  }
  for (int64_t begin = 0; begin < size_; begin += kColumnsTogether) {
    const int64_t end = std::min(size_, begin + kColumnsTogether);
    for (int64_t row = 0; row < rows; ++row) {
      float* w = left.data() + row * size_;
      for (int64_t k = begin; k < end; ++k) {
        const int64_t column = order_[Product(k, 1)];
        const GroupFit& fit =
            grids[Product(row, 1)].groups[static_cast<size_t>(column / grid.group())];
        const int code = NearestCode(w[k], fit, grid.codes());
        codes[static_cast<size_t>(row * size_ + column)] = static_cast<int8_t>(code);
        const float* u = factor_.data() + k * size_;
        const float stored = fit.scale * static_cast<float>(code) + fit.minimum;
        const float error = (w[k] - stored) / u[k];
        errors[static_cast<size_t>(row * kColumnsTogether + k - begin)] = error;
        for (int64_t j = k + 1; j < end; ++j) w[j] -= error * u[j];
      }
    }
    for (int64_t row = 0; row < rows; ++row) {
      float* w = left.data() + row * size_;
      for (int64_t k = begin; k < end; ++k) {
        const float error = errors[static_cast<size_t>(row * kColumnsTogether + k - begin)];
        const float* u = factor_.data() + k * size_;
        for (int64_t j = end; j < size_; ++j) w[j] -= error * u[j];
      }
    }
  }
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t k = 0; k < size_; ++k) {
      weights[static_cast<size_t>(row * size_ + order_[Product(k, 1)])] =
          left[static_cast<size_t>(row * size_ + k)];
    }
  }
}

RoundedMatrix GptqRounder::Round(const StoredMatrix& from, const QuantizeOptions& target,
                                 std::span<const float> importance) const {
  const WeightGrid grid(target, size_);
  RoundedMatrix rounded{AllocateStored(target, from.rows, from.columns), 0};
  Errors sums(from.rows);
  const int64_t pieces = (from.rows + kRowsTogether - 1) / kRowsTogether;
  const auto size = static_cast<size_t>(size_);
  ParallelFor(options_.threads, pieces, 1, [&](int64_t first, int64_t last) {
    for (int64_t piece = first; piece < last; ++piece) {
      const int64_t begin = piece * kRowsTogether;
      const int64_t end = std::min(from.rows, begin + kRowsTogether);
      const auto count = static_cast<size_t>(end - begin);
      std::vector<float> weights(count * size);
      ReadRows(from, begin, end, weights.data());
      RequireFiniteRows(weights);
      std::vector<RowGrid> fits;
      std::vector<int8_t> nearest(weights.size()), codes(weights.size());
      const auto row_of = [&](auto& all, size_t i) {
        return std::span(all).subspan(i * size, size);
      };
      for (size_t i = 0; i < count; ++i) {
        fits.push_back(grid.Fit(row_of(weights, i), importance));
        grid.Round(row_of(weights, i), fits[i], row_of(nearest, i));
      }
      std::vector<float> left = weights;
      Sweep(left, fits, grid, codes);
      // Three kinds of rows: what both ways lose, and the weights themselves.
      std::vector<float> rows(3 * weights.size());
      for (size_t i = 0; i < count; ++i) {
        Differences(row_of(weights, i), fits[i], grid, row_of(codes, i), row_of(rows, i));
        Differences(row_of(weights, i), fits[i], grid, row_of(nearest, i), row_of(rows, count + i));
        std::ranges::copy(row_of(weights, i), row_of(rows, 2 * count + i).begin());
      }
      const std::vector<double> forms = QuadraticForms(rows, hessian_, size_);
      for (size_t i = 0; i < count; ++i) {
        const bool helps = forms[i] <= forms[count + i];
        grid.Store(fits[i], row_of(helps ? codes : nearest, i), begin + static_cast<int64_t>(i),
                   rounded.matrix);
        sums.lost[static_cast<size_t>(begin) + i] = std::min(forms[i], forms[count + i]);
        sums.all[static_cast<size_t>(begin) + i] = forms[2 * count + i];
      }
    }
  });
  rounded.relative_error = sums.Relative();
  return rounded;
}

RoundedMatrix RoundToNearest(const StoredMatrix& from, const QuantizeOptions& target,
                             std::span<const float> importance, int threads) {
  const WeightGrid grid(target, from.columns);
  RoundedMatrix rounded{AllocateStored(target, from.rows, from.columns), 0};
  Errors sums(from.rows);
  const auto size = static_cast<size_t>(from.columns);
  ParallelFor(threads, from.rows, 1, [&](int64_t first, int64_t last) {
    std::vector<float> weights(size), difference(size);
    std::vector<int8_t> codes(size);
    for (int64_t row = first; row < last; ++row) {
      ReadRows(from, row, row + 1, weights.data());
      RequireFiniteRows(weights);
      const RowGrid fit = grid.Fit(weights, importance);
      grid.Round(weights, fit, codes);
      grid.Store(fit, codes, row, rounded.matrix);
      Differences(weights, fit, grid, codes, difference);
      double lost = 0, all = 0;
      for (size_t k = 0; k < size; ++k) {
        const double weight = importance.empty() ? 1 : static_cast<double>(importance[k]);
        lost += weight * std::pow(static_cast<double>(difference[k]), 2);
        all += weight * std::pow(static_cast<double>(weights[k]), 2);
      }
      sums.lost[static_cast<size_t>(row)] = lost;
      sums.all[static_cast<size_t>(row)] = all;
    }
  });
  rounded.relative_error = sums.Relative();
  return rounded;
}

}  // namespace oort::llm_quantize
