// SPDX-License-Identifier: MIT
// Rounding of a matrix where the error of each column is made good by those that come behind it
// (GPTQ: Frantar, Ashkboos, Hoefler, Alistarh, 2022).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "weights/weight_grid.h"

namespace oort::llm_quantize {

struct GptqOptions {
  double damping = 0.01;  ///< share of the mean of H's diagonal that is added to it
  /// Columns with the largest inputs first. Scales are those of the weights as they came, so that a
  /// file has its groups in the usual order.
  bool act_order = true;
  int threads = 1;
};

/// A matrix that was rounded, and what it costs.
struct RoundedMatrix {
  StoredMatrix matrix;
  /// The squared error of the products with inputs like the seen ones, by their own squares.
  double relative_error = 0;
};

/// What several matrices with the same inputs share.
class GptqRounder {
 public:
  /// `hessian`: see HessianOf. Throws as InverseFactor does.
  GptqRounder(const std::vector<double>& hessian, int64_t size, const GptqOptions& options);

  /// `importance`: of the columns, for the search for scales. Rows that nearest numbers would serve
  /// better get these. Throws kInvalidArgument for weights that are not finite.
  RoundedMatrix Round(const StoredMatrix& from, const QuantizeOptions& target,
                      std::span<const float> importance) const;

  /// The codes of rows [0, rows) of `weights`, (rows, size), which are used up: they hold what was
  /// left to round when the turn of each came.
  void Sweep(std::span<float> weights, std::span<const RowGrid> grids, const WeightGrid& grid,
             std::span<int8_t> codes) const;

 private:
  int64_t size_;
  GptqOptions options_;
  std::vector<int64_t> order_;  ///< the columns in the order of their rounding
  std::vector<float> factor_;   ///< U of the permuted Hessian
  std::vector<float> hessian_;  ///< f32, as it came
};

/// The same for rows rounded to the nearest numbers of a search: the error by the importance of
/// the columns alone, each for itself. Empty importance: all count alike.
RoundedMatrix RoundToNearest(const StoredMatrix& from, const QuantizeOptions& target,
                             std::span<const float> importance, int threads);

}  // namespace oort::llm_quantize
