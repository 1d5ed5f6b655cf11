// SPDX-License-Identifier: MIT
// How torch.einsum is computed: sums and products of two matrices at a time.
#pragma once

#include <optional>
#include <vector>

#include "layers/linear/einsum_equation.h"
#include "layers/shape/strided.h"

namespace oort {

/// A tensor with named axes: an operand, or what a step left in the scratch memory.
struct EinsumTensor {
  int input = -1;      ///< index of the operand, or -1
  int64_t offset = 0;  ///< in elements, where it is scratch
  EinsumLabels labels;
  Strided view{Shape{}};
};

/// An operand as `count` matrices, row-major.
struct EinsumMatrices {
  EinsumTensor tensor;
  bool copied = false;  ///< its axes must be brought into order first
  int64_t copy = 0;     ///< where to, in elements
  bool transposed = false;
};

/// The sum over the columns of `a`, or the products of a (rows, inner) and b (inner, columns).
struct EinsumStep {
  bool is_sum = false;
  EinsumMatrices a, b;
  int64_t count = 1, rows = 1, columns = 1, inner = 1;
  int64_t result = 0;       ///< in elements
  bool is_last = false;     ///< the result goes straight to the output
  double products() const;  ///< of numbers, for each pair of matrices
};

struct EinsumPlan {
  std::vector<EinsumStep> steps;
  int64_t elements = 0;  ///< of scratch memory
  /// What is left to be copied to the output, unless the last step writes it.
  std::optional<EinsumTensor> rest;

  /// `may_transpose`: the product takes matrices in either order.
  static EinsumPlan Of(const EinsumAxes& axes, std::span<const Shape> shapes, bool may_transpose);
};

}  // namespace oort
