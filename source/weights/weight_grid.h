// SPDX-License-Identifier: MIT
// A row of weights in fewer bits in two steps: first what its codes will stand for, then the codes.
// Who picks codes otherwise than by the nearest number, as GPTQ does, comes in between.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "weights/group_fit.h"
#include "weights/quantize_weights.h"

namespace oort {

/// What the codes of one row stand for.
struct RowGrid {
  std::vector<GroupFit> groups;  ///< exactly as a reader of the file gets them
  /// Of formats whose scales and minimums count steps (GGUF's K types): the steps of each span, f16
  /// numbers, and how many of them each group has. Minimums are subtracted.
  std::vector<float> step, minimum_step;
  std::vector<int> scale_count, minimum_count;
};

/// Whether rows of that format can be written.
bool CanWriteFormat(WeightFormat format);

class WeightGrid {
 public:
  /// Throws kInvalidArgument where rows of so many columns make no whole groups or blocks, and
  /// kUnsupported where CanWriteFormat says no, or for plain floats.
  WeightGrid(const QuantizeOptions& options, int64_t columns);

  int64_t columns() const { return columns_; }
  int64_t group() const { return group_; }  ///< elements that share a scale
  const CodeRange& codes() const { return rules_.codes; }

  /// `importance` has a number for each column, or is empty. Throws kInvalidArgument for scales
  /// that the format cannot hold.
  RowGrid Fit(std::span<const float> row, std::span<const float> importance) const;
  /// The codes of the nearest numbers.
  void Round(std::span<const float> row, const RowGrid& grid, std::span<int8_t> codes) const;
  /// Row `row` of `to`, which AllocateStored made with the same options.
  void Store(const RowGrid& grid, std::span<const int8_t> codes, int64_t row,
             StoredMatrix& to) const;

 private:
  void FitSpan(std::span<const float> x, std::span<const float> importance, RowGrid& grid) const;
  void StoreGroups(const RowGrid& grid, std::span<const int8_t> codes, int64_t row,
                   StoredMatrix& to) const;

  WeightFormat format_;
  int64_t columns_, group_;
  int64_t span_ = 0;  ///< elements whose scales count one step; 0: scales stand for themselves
  FitRules rules_;
};

}  // namespace oort
