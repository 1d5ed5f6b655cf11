// SPDX-License-Identifier: MIT
// Columns that meet large inputs are made larger before a matrix is rounded, and what gives these
// inputs smaller: the product stays, and their share of the rounding error shrinks (AWQ: Lin, Tang
// and others, 2023).
#pragma once

#include <span>
#include <vector>

#include "weights/quantize_weights.h"

namespace oort::llm_quantize {

/// Factors for the columns of matrices with the same inputs: the power of the inputs' root mean
/// squares, of those tried, with which the matrices lose least; all 1 where none helps. Errors
/// count by `mean_squares` of the columns.
std::vector<float> AwqFactors(std::span<const StoredMatrix> matrices, const QuantizeOptions& target,
                              std::span<const float> mean_squares, int threads);

/// The matrix as f32 with its columns times the factors.
StoredMatrix ScaleColumns(const StoredMatrix& matrix, std::span<const float> factors);

}  // namespace oort::llm_quantize
